! Heat in a rod, explicit Euler: every rank has n cells and swaps one value with each neighbour in every step.
! Arguments: cells steps. Built with one of the three ways to MPI: -DMPIF, -DUSE_MPI or -DUSE_MPI_F08. The first two may
! need -fallow-argument-mismatch.
module rod
  implicit none
contains
  subroutine start(u, first)
    double precision, intent(out) :: u(0:)
    integer, intent(in) :: first
    integer :: i
    do i = 0, ubound(u, 1)
      u(i) = merge(1d0, 0d0, mod(first + i, 7) < 3)
    end do
  end subroutine start

  subroutine advance(u, v)
    double precision, intent(inout) :: u(0:)
    double precision, intent(out) :: v(0:)
    integer :: i
    do i = 1, ubound(u, 1) - 1
      v(i) = u(i) + 0.25d0*(u(i - 1) - 2*u(i) + u(i + 1))
    end do
    u(1:ubound(u, 1) - 1) = v(1:ubound(u, 1) - 1)
  end subroutine advance
end module rod

double precision function total(u, n)
  implicit none
  integer, intent(in) :: n
  double precision, intent(in) :: u(n)
  integer :: i
  total = 0
  do i = 1, n
    if (u(i) > 0) total = total + u(i)
  end do
end function total

program heat
#if defined(USE_MPI_F08)
  use mpi_f08
#elif defined(USE_MPI)
  use mpi
#endif
  use rod
  implicit none
#if defined(MPIF)
  include 'mpif.h'
#endif
#if defined(USE_MPI_F08)
#define FIRST(array) array(1)
  type(MPI_Comm) :: ring
  type(MPI_Request) :: requests(4)
  type(MPI_Status) :: statuses(4), status
#else
#define FIRST(array) array(:, 1)
  integer :: ring
  integer :: requests(4)
  integer :: statuses(MPI_STATUS_SIZE, 4), status(MPI_STATUS_SIZE)
#endif
  double precision, external :: total
  double precision, allocatable :: u(:), v(:)
  double precision :: heat_here, heat_everywhere
  integer :: n, steps, me, ranks, left, right, step, error, got, index
  logical :: periodic(1)
  character(len=20) :: word

  call get_command_argument(1, word)
  read (word, *) n
  call get_command_argument(2, word)
  read (word, *) steps
  call MPI_Init(error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  periodic = .true.
  call MPI_Cart_create(MPI_COMM_WORLD, 1, [ranks], periodic, .false., ring, error)
  call MPI_Comm_rank(ring, me, error)
  call MPI_Cart_shift(ring, 0, 1, left, right, error)
  allocate (u(0:n + 1), v(0:n + 1))
  call start(u, me*n)
  do step = 1, steps
    call swap
    call advance(u, v)
  end do
  heat_here = total(u(1:n), n)
  call MPI_Reduce(heat_here, heat_everywhere, 1, MPI_DOUBLE_PRECISION, MPI_SUM, 0, ring, error)
  call MPI_Allreduce(MPI_IN_PLACE, heat_here, 1, MPI_DOUBLE_PRECISION, MPI_SUM, ring, error)
  if (me == 0 .and. abs(heat_here - heat_everywhere) > 1d-9) call MPI_Abort(MPI_COMM_WORLD, 1, error)
  call others
  if (me == 0) print '(f20.9)', heat_here
  call MPI_Finalize(error)

contains

  ! The four messages of a step; every second step with statuses.
  subroutine swap
    call MPI_Irecv(u(0), 1, MPI_DOUBLE_PRECISION, left, 1, ring, requests(1), error)
    call MPI_Irecv(u(n + 1), 1, MPI_DOUBLE_PRECISION, right, 2, ring, requests(2), error)
    call MPI_Isend(u(n), 1, MPI_DOUBLE_PRECISION, right, 1, ring, requests(3), error)
    call MPI_Isend(u(1), 1, MPI_DOUBLE_PRECISION, left, 2, ring, requests(4), error)
    if (mod(step, 2) == 0) then
      call MPI_Waitall(4, requests, MPI_STATUSES_IGNORE, error)
    else
      call MPI_Waitall(4, requests, statuses, error)
      call MPI_Get_count(FIRST(statuses), MPI_DOUBLE_PRECISION, got, error)
      if (got /= 1) call MPI_Abort(MPI_COMM_WORLD, 2, error)
    end if
  end subroutine swap

  ! What the solver has no use for: constants that are addresses, positions, statuses, logicals.
  subroutine others
    integer :: i
    integer, allocatable :: counts(:), offsets(:), mine(:), all_of_them(:)
    logical :: done

    allocate (counts(ranks), offsets(ranks), mine(me + 1), all_of_them(ranks*(ranks + 1)/2))
    counts = [(i, i=1, ranks)]
    offsets = [(i*(i - 1)/2, i=1, ranks)]
    mine = me
    call MPI_Gatherv(mine, me + 1, MPI_INTEGER, all_of_them, counts, offsets, MPI_INTEGER, 0, ring, error)
    if (me == 0 .and. sum(all_of_them) /= sum([((i + 1)*i, i=0, ranks - 1)])) call MPI_Abort(MPI_COMM_WORLD, 3, error)

    call MPI_Sendrecv(me, 1, MPI_INTEGER, right, 3, got, 1, MPI_INTEGER, left, 3, ring, MPI_STATUS_IGNORE, error)
    if (got /= left) call MPI_Abort(MPI_COMM_WORLD, 4, error)

    call MPI_Irecv(got, 1, MPI_INTEGER, left, 4, ring, requests(2), error)
    requests(1) = MPI_REQUEST_NULL
    call MPI_Send(me, 1, MPI_INTEGER, right, 4, ring, error)
    call MPI_Waitany(2, requests, index, status, error)
    if (got /= left) call MPI_Abort(MPI_COMM_WORLD, 5, error)
    call MPI_Test(requests(2), done, status, error)
    if (.not. done) call MPI_Abort(MPI_COMM_WORLD, 6, error)
#if defined(USE_MPI_F08)
    call MPI_Barrier(ring)
#else
    call MPI_Barrier(ring, error)
#endif
  end subroutine others
end program heat
