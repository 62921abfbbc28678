! Operations of MPI with arguments that are hard to pass on from Fortran; ends with an error if one gives a wrong result.
! The ranks form a ring.
program operations
  use mpi_f08
  use, intrinsic :: iso_c_binding
  implicit none
  integer :: me, ranks, left, right, i
  type(MPI_Comm) :: ring, copy
  type(MPI_Request) :: request
  type(MPI_Message) :: message
  type(MPI_Status) :: status
  type(MPI_Win) :: window
  type(MPI_Datatype), allocatable :: types(:)
  type(c_ptr) :: base
  integer, pointer, volatile :: cells(:)
  integer, asynchronous :: got
  integer :: from_both(2)
  integer, allocatable :: counts(:), offsets(:), sent(:), received(:)
  logical :: there

  call MPI_Init()
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  left = modulo(me - 1, ranks)
  right = modulo(me + 1, ranks)

  call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, [left, right], MPI_UNWEIGHTED, 2, [left, right], &
                                      MPI_UNWEIGHTED, MPI_INFO_NULL, .false., ring)
  call MPI_Neighbor_allgather(me, 1, MPI_INTEGER, from_both, 1, MPI_INTEGER, ring)
  call check(all(from_both == [left, right]), 1)
  call MPI_Neighbor_alltoallv([me, me], [1, 1], [0, 1], MPI_INTEGER, from_both, [1, 1], [1, 0], MPI_INTEGER, ring)
  call check(all(from_both == [right, left]) .or. ranks < 3, 2)

  allocate (types(ranks), counts(ranks), offsets(ranks), sent(ranks), received(ranks))
  types = MPI_INTEGER
  counts = 1
  offsets = [(4*(i - 1), i=1, ranks)]
  sent = [(100*me + i - 1, i=1, ranks)]
  call MPI_Alltoallw(sent, counts, offsets, types, received, counts, offsets, types, MPI_COMM_WORLD)
  call check(all(received == [(100*(i - 1) + me, i=1, ranks)]), 3)
  call MPI_Alltoallw(MPI_IN_PLACE, counts, offsets, types, sent, counts, offsets, types, MPI_COMM_WORLD)
  call check(all(sent == received), 4)

  call MPI_Neighbor_alltoallw([me, 10*me], [1, 1], [0_MPI_ADDRESS_KIND, 4_MPI_ADDRESS_KIND], &
                              [MPI_INTEGER, MPI_INTEGER], from_both, [1, 1], &
                              [0_MPI_ADDRESS_KIND, 4_MPI_ADDRESS_KIND], [MPI_INTEGER, MPI_INTEGER], ring)
  call check(all(from_both == [10*left, right]) .or. ranks < 3, 9)

  call MPI_Comm_idup(ring, copy, request)
  call MPI_Wait(request, MPI_STATUS_IGNORE)
  call MPI_Isend(me, 1, MPI_INTEGER, right, 7, copy, request)
  there = .false.
  do while (.not. there)
    call MPI_Improbe(left, 7, copy, there, message, status)
  end do
  call check(status%MPI_SOURCE == left .and. status%MPI_TAG == 7, 5)
  call MPI_Mrecv(got, 1, MPI_INTEGER, message, MPI_STATUS_IGNORE)
  call check(got == left, 6)
  call MPI_Wait(request, status)

  call MPI_Win_allocate(4096_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, copy, base, window)
  call c_f_pointer(base, cells, [1])
  call MPI_Win_fence(0, window)
  call MPI_Put(me, 1, MPI_INTEGER, me, 0_MPI_ADDRESS_KIND, 1, MPI_INTEGER, window)
  call MPI_Win_fence(0, window)
  call check(cells(1) == me, 7)
  call MPI_Win_free(window)
  call MPI_Comm_free(copy)
  call check(copy == MPI_COMM_NULL, 8)
  call MPI_Finalize()

contains

  subroutine check(right_result, number)
    logical, intent(in) :: right_result
    integer, intent(in) :: number
    if (.not. right_result) call MPI_Abort(MPI_COMM_WORLD, number)
  end subroutine check
end program operations
