! Passes a matrix of n by n real numbers in the order of memory, across it, and by sections.
module walks
  use iso_fortran_env, only: real64
  implicit none
contains
  subroutine along(a, total)
    real(real64), intent(in) :: a(:, :)
    real(real64), intent(inout) :: total
    integer :: i, j
    do j = 1, size(a, 2)
      do i = 1, size(a, 1)
        total = total + a(i, j)
      end do
    end do
  end subroutine along

  subroutine across(a, total)
    real(real64), intent(in) :: a(:, :)
    real(real64), intent(inout) :: total
    integer :: i, j
    do i = 1, size(a, 1)
      do j = 1, size(a, 2)
        total = total + a(i, j)
      end do
    end do
  end subroutine across

  subroutine sections(a, b)
    real(real64), intent(in) :: a(:, :)
    real(real64), intent(inout) :: b(:, :)
    b(:, :) = b + 2.0_real64 * a
  end subroutine sections
end module walks

program main
  use walks
  implicit none
  real(real64), allocatable :: a(:, :), b(:, :)
  real(real64) :: total = 0
  character(len=16) :: text
  integer :: n
  call get_command_argument(1, text)
  read (text, *) n
  allocate (a(n, n), b(n, n))
  a = 1
  b = 0
  call along(a, total)
  call across(a, total)
  call sections(a, b)
  print *, total, b(n, n)
end program main
