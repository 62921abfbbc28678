! Heat on a plate: each rank has n by n cells. What a step takes grows with its cells alone.
! Two routines do too much, and take next to nothing in small runs.
module plate
  use mpi
  implicit none
  integer, parameter :: real64 = kind(1d0)
contains

  ! Who has the rows above and below? Each rank sorts everybody, by comparing all with all: p**2.
  subroutine find_neighbours(ranks, rank, above, below)
    integer, intent(in) :: ranks, rank
    integer, intent(out) :: above, below
    integer :: row(ranks), place(ranks), i, j
    do i = 1, ranks
      row(i) = mod(i * 7919, 104729)
    end do
    place = 0
    do i = 1, ranks
      do j = 1, ranks
        if (row(j) < row(i) .or. (row(j) == row(i) .and. j < i)) place(i) = place(i) + 1
      end do
    end do
    above = MPI_PROC_NULL
    below = MPI_PROC_NULL
    do i = 1, ranks
      if (place(i) == place(rank + 1) - 1) above = i - 1
      if (place(i) == place(rank + 1) + 1) below = i - 1
    end do
  end subroutine

  subroutine exchange(heat, n, above, below)
    integer, intent(in) :: n, above, below
    real(real64), intent(inout) :: heat(0:n+1, 0:n+1)
    integer :: ierr
    call MPI_Sendrecv(heat(:, 1), n + 2, MPI_DOUBLE_PRECISION, above, 0, &
                      heat(:, n + 1), n + 2, MPI_DOUBLE_PRECISION, below, 0, &
                      MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
    call MPI_Sendrecv(heat(:, n), n + 2, MPI_DOUBLE_PRECISION, below, 1, &
                      heat(:, 0), n + 2, MPI_DOUBLE_PRECISION, above, 1, &
                      MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
  end subroutine

  subroutine relax(heat, new, n)
    integer, intent(in) :: n
    real(real64), intent(inout) :: heat(0:n+1, 0:n+1), new(0:n+1, 0:n+1)
    integer :: i, j
    do j = 1, n
      do i = 1, n
        new(i, j) = 0.25d0 * (heat(i-1, j) + heat(i+1, j) + heat(i, j-1) + heat(i, j+1))
      end do
    end do
    heat(1:n, 1:n) = new(1:n, 1:n)
  end subroutine

  ! The median of the cells, looked for by comparing each cell with all others: (n**2)**2, once at the end.
  real(real64) function median(heat, n)
    integer, intent(in) :: n
    real(real64), intent(in) :: heat(0:n+1, 0:n+1)
    integer :: i, j, k, l, colder
    median = heat(1, 1)
    do j = 1, n
      do i = 1, n
        colder = 0
        do l = 1, n
          do k = 1, n
            if (heat(k, l) < heat(i, j)) colder = colder + 1
          end do
        end do
        if (colder == n * n / 2) median = heat(i, j)
      end do
    end do
  end function
end module

program main
  use plate
  implicit none
  integer :: ranks, rank, ierr, n, steps, step, above, below, i, j
  real(real64), allocatable :: heat(:, :), new(:, :)
  real(real64) :: middle, total
  character(len=32) :: text
  call MPI_Init(ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call get_command_argument(1, text)
  read (text, *) n
  call get_command_argument(2, text)
  read (text, *) steps
  allocate (heat(0:n+1, 0:n+1), new(0:n+1, 0:n+1))
  do j = 0, n + 1
    do i = 0, n + 1
      heat(i, j) = mod(i * 31 + j * 17 + rank, 97)
    end do
  end do
  call find_neighbours(ranks, rank, above, below)
  do step = 1, steps
    call exchange(heat, n, above, below)
    call relax(heat, new, n)
  end do
  middle = median(heat, n)
  call MPI_Allreduce(middle, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
  if (rank == 0) print *, 'mean of the medians', total / ranks
  call MPI_Finalize(ierr)
end program
