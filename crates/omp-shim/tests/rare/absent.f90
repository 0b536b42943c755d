! Arguments of target constructs that are absent, point nowhere, are not allocated, or have no size.
module absent_arguments
  implicit none
contains
  subroutine optionals(scalar, shape, explicit)
    integer, optional, target :: scalar, shape(:), explicit(4)
    logical :: there
    there = present(scalar)
    !$omp target data map(tofrom: scalar, shape, explicit) use_device_addr(scalar, shape, explicit)
    print *, 'data', present(scalar) .eqv. there, present(shape) .eqv. there, present(explicit) .eqv. there
    if (there) print *, scalar, shape, explicit
    !$omp end target data
    !$omp target has_device_addr(scalar, shape, explicit) firstprivate(there)
    print *, 'addr', present(scalar) .eqv. there, present(shape) .eqv. there, present(explicit) .eqv. there
    if (there) print *, scalar, shape, explicit
    !$omp end target
    !$omp target nowait has_device_addr(shape, explicit) firstprivate(there)
    print *, 'nowait', present(shape) .eqv. there, present(explicit) .eqv. there
    if (there) print *, shape, explicit
    !$omp end target
    !$omp taskwait
    !$omp target firstprivate(explicit, there)
    print *, 'private', present(explicit) .eqv. there
    if (there) explicit = 0
    !$omp end target
    !$omp target enter data map(to: scalar, shape, explicit)
    !$omp target update from(scalar, shape, explicit)
    !$omp target exit data map(from: scalar, shape, explicit)
    if (there) print *, 'after', explicit
  end subroutine

  subroutine sizeless(x, n)
    integer, optional, target :: x(*)
    integer, intent(in) :: n
    !$omp target data use_device_addr(x)
    if (present(x)) print *, 'sizeless', x(1:n)
    !$omp end target data
    !$omp target has_device_addr(x)
    if (present(x)) print *, 'sizeless', x(1:n)
    !$omp end target
    !$omp target nowait has_device_addr(x)
    if (present(x)) print *, 'sizeless', x(1:n)
    !$omp end target
    !$omp taskwait
  end subroutine

  subroutine rankless(x)
    integer, optional, target :: x(..)
    !$omp target data use_device_addr(x)
    if (present(x)) print *, 'rankless', shape(x)
    !$omp end target data
    !$omp target has_device_addr(x)
    if (present(x)) print *, 'rankless', shape(x)
    !$omp end target
  end subroutine

  subroutine indirect(p, a)
    integer, pointer, optional :: p(:)
    integer, allocatable, optional :: a(:)
    !$omp target data use_device_addr(p, a)
    if (present(p)) print *, 'pointer', associated(p)
    if (present(a)) print *, 'allocated', allocated(a)
    !$omp end target data
  end subroutine

  subroutine pointers(p, a)
    integer, pointer :: p(:)
    integer, allocatable :: a(:)
    !$omp target has_device_addr(p, a)
    if (associated(p)) print *, p
    if (allocated(a)) print *, a
    !$omp end target
  end subroutine
end module

program absent
  use absent_arguments
  implicit none
  integer, target :: x(4) = [1, 2, 3, 4], y(2, 3) = 5
  integer, pointer :: p(:)
  integer, allocatable :: a(:)
  nullify(p)
  call optionals()
  call optionals(x(2), x(1:4:2), x)
  call sizeless(n=4)
  call sizeless(x, 4)
  call rankless()
  call rankless(y)
  call indirect()
  call indirect(p, a)
  call pointers(p, a)
  p => x
  allocate(a(2), source=7)
  call indirect(p, a)
  call pointers(p, a)
end program
