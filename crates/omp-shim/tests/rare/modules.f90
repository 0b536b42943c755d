! Fortran: allocatable private data, array reductions, workshare, threadprivate, the module omp_lib with both integer kinds.
module state
  implicit none
  integer, allocatable, save :: own(:)
  integer, save :: mark = 4
  !$omp threadprivate(own, mark)
  type pair
    integer :: low = huge(1), high = -huge(1)
  end type
end module

program modules
  use omp_lib
  use state
  implicit none
  integer :: i, j, k, wrong, total, last
  integer(8) :: wide
  integer, allocatable :: a(:), b(:, :)
  real :: x(30), y(30)
  type(pair) :: range
  character(len=40) :: text
  integer(omp_sched_kind) :: kind
  integer(omp_lock_kind) :: lock
  integer(omp_nest_lock_kind) :: nest
  integer(omp_event_handle_kind) :: event
  integer(omp_depend_kind) :: object
  !$omp declare reduction(widen : pair : omp_out = pair(min(omp_out%low, omp_in%low), max(omp_out%high, omp_in%high))) &
  !$omp   initializer(omp_priv = pair())

  wrong = 0
  allocate(a(10), b(5, 6))
  a = [(i, i = 1, 10)]
  b = 0
  !$omp parallel num_threads(3) firstprivate(a) reduction(+ : wrong, b)
  if (.not. allocated(a) .or. sum(a) /= 55) wrong = wrong + 1
  deallocate(a)
  allocate(a(3))
  a = omp_get_thread_num()
  b(:, 2) = b(:, 2) + 1
  b(3, :) = b(3, :) + a(1)
  !$omp end parallel
  print *, wrong, sum(b), sum(a), size(a)

  !$omp parallel num_threads(3) copyin(mark)
  allocate(own(omp_get_thread_num() + 1))
  own = omp_get_thread_num() + mark
  !$omp end parallel
  total = 0
  !$omp parallel num_threads(3) reduction(+ : total)
  total = total + sum(own)
  deallocate(own)
  !$omp end parallel
  print *, total

  x = [(real(i), i = 1, 30)]
  y = 0
  !$omp parallel workshare num_threads(4)
  y = x * 2
  where (x > 20) y = 0
  forall (i = 1:5) y(i) = y(i) + 100
  !$omp end parallel workshare
  print '(f8.1)', sum(y)

  range = pair()
  !$omp parallel do reduction(widen : range) num_threads(4) schedule(guided) lastprivate(last)
  do i = 100, -50, -7
    range%low = min(range%low, i)
    range%high = max(range%high, i)
    last = i
  end do
  print *, range%low, range%high, last

  total = 0
  wide = 0
  !$omp parallel num_threads(3)
  !$omp single
  !$omp taskloop collapse(2) reduction(+ : total) num_tasks(5)
  do i = 1, 10
    do j = 1, 10
      total = total + i * j
    end do
  end do
  !$omp end taskloop
  do k = 1, 10
    !$omp task depend(inout : wide) firstprivate(k) priority(k)
    wide = wide * 3 + k
    !$omp end task
  end do
  !$omp task detach(event) depend(inout : wide)
  wide = wide + 1
  !$omp end task
  call omp_fulfill_event(event)
  !$omp taskwait
  !$omp depobj(object) depend(in : wide)
  !$omp task depend(depobj : object)
  wide = wide + 1
  !$omp end task
  !$omp taskwait
  !$omp depobj(object) destroy
  !$omp end single copyprivate(k)
  !$omp end parallel
  print *, total, wide

  k = 0
  !$omp parallel do ordered(2) num_threads(3) schedule(static, 1)
  do i = 2, 20, 3
    do j = 9, 1, -2
      !$omp ordered depend(sink : i - 3, j) depend(sink : i, j + 2)
      !$omp atomic
      k = k + i * j
      !$omp ordered depend(source)
    end do
  end do
  print *, k

  call omp_set_schedule(omp_sched_guided, 5)
  call omp_get_schedule(kind, k)
  call omp_set_num_threads(3_8)
  call omp_set_dynamic(.false._8)
  call omp_set_affinity_format('%n of %0.3N')
  i = int(omp_get_affinity_format(text))
  print *, kind == omp_sched_guided, k, i, omp_get_max_threads(), omp_get_dynamic()
  print *, trim(text)
  i = int(omp_capture_affinity(text, '%{thread_num}/%{num_threads} at %L'))
  print *, i, '[', text, ']'
  call omp_init_lock(lock)
  call omp_set_lock(lock)
  print *, omp_test_lock(lock)
  call omp_unset_lock(lock)
  call omp_destroy_lock(lock)
  call omp_init_nest_lock(nest)
  call omp_set_nest_lock(nest)
  print *, omp_test_nest_lock(nest)
  call omp_unset_nest_lock(nest)
  call omp_unset_nest_lock(nest)
  call omp_destroy_nest_lock(nest)
  print *, omp_get_wtick() > 0, omp_get_wtime() > 0, omp_in_parallel(), omp_get_ancestor_thread_num(0_8)
  total = 0
  !$omp parallel num_threads(2) proc_bind(close) reduction(+ : total)
  !$omp parallel sections num_threads(2) reduction(+ : total) lastprivate(k)
  !$omp section
  total = total + 1
  k = 1
  !$omp section
  total = total + omp_get_level()
  k = 2
  !$omp end parallel sections
  total = total + k
  !$omp end parallel
  print *, total
end program
