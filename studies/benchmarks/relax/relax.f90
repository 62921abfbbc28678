module kernels
  implicit none
contains
  pure function weight(i) result(w)
    integer, intent(in) :: i
    real(8) :: w
    w = 1d0 / (1d0 + mod(i, 7))
  end function
  subroutine smooth(a, b, n)
    integer, intent(in) :: n
    real(8), intent(inout) :: a(n, n), b(n, n)
    integer :: i, j
    do j = 2, n - 1
      do i = 2, n - 1
        b(i, j) = 0.25d0 * (a(i-1, j) + a(i+1, j) + a(i, j-1) + a(i, j+1)) * weight(i)
      end do
    end do
    call swap()
  contains
    subroutine swap()
      a = b
    end subroutine
  end subroutine
end module
real(8) function norm(a, n)
  implicit none
  integer, intent(in) :: n
  real(8), intent(in) :: a(n, n)
  norm = sqrt(sum(a * a))
end function
program relax
  use mpi
  use kernels
  implicit none
  integer :: n, steps, k, error
  real(8), allocatable :: a(:, :), b(:, :)
  real(8) :: own, total
  real(8), external :: norm
  character(32) :: word
  call MPI_Init(error)
  call get_command_argument(1, word)
  read (word, *) n
  steps = 60
  allocate (a(n, n), b(n, n))
  a = 1d0
  b = 0d0
  do k = 1, steps
    call smooth(a, b, n)
    own = norm(a, n)
    call MPI_Allreduce(own, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
  end do
  if (total < 0) print *, total
  call MPI_Finalize(error)
end program
