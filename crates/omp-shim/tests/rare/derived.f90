! Fortran: private data of derived types with allocatable parts, common blocks, array and complex reductions, workshare.
program derived
  use omp_lib
  implicit none
  type t
    integer, allocatable :: v(:)
    integer :: n = 3
  end type
  type(t) :: x, y
  integer :: i, j, s, common_n, pcount
  real(8) :: r(20), acc
  complex(8) :: z
  character(len=5) :: str
  integer, pointer :: p(:)
  integer, allocatable :: red(:)
  logical :: l
  common /blk/ common_n
  !$omp threadprivate(/blk/)
  allocate(x%v(4)); x%v = [1,2,3,4]
  s = 0
  !$omp parallel num_threads(3) firstprivate(x) private(y) reduction(+:s)
  x%v = x%v + omp_get_thread_num()
  allocate(y%v(2)); y%v = y%n
  s = s + sum(x%v) + sum(y%v) - 4*omp_get_thread_num()
  !$omp end parallel
  print *, s, x%v
  common_n = 12
  s = 0
  !$omp parallel num_threads(3) copyin(/blk/) reduction(+:s)
  s = s + common_n
  common_n = omp_get_thread_num()
  !$omp end parallel
  !$omp parallel num_threads(3) reduction(+:s)
  s = s + common_n
  !$omp end parallel
  print *, s
  allocate(red(5)); red = 0; acc = 0; z = 0; l = .true.; str = 'abcde'
  !$omp parallel do num_threads(4) reduction(+:red, acc, z) reduction(.and.:l) firstprivate(str) schedule(dynamic,3) lastprivate(y)
  do i = 1, 100
    red(mod(i,5)+1) = red(mod(i,5)+1) + i
    acc = acc + i*0.5d0
    z = z + cmplx(i, -i, 8)
    l = l .and. str == 'abcde'
    if (i == 100) then
        y%n = 77
        if (.not. allocated(y%v)) allocate(y%v(1))
        y%v(1) = 5
    end if
  end do
  print *, red, acc, z, l, y%n
  s = 0
  !$omp parallel num_threads(4) default(none) shared(s, r) private(i, j)
  !$omp do collapse(2) schedule(static, 2)
  do i = 1, 4
    do j = 1, 5
      r((i-1)*5 + j) = i*10 + j
    end do
  end do
  !$omp end do nowait
  !$omp barrier
  !$omp sections reduction(+:s)
  !$omp section
  s = s + 1
  !$omp section
  s = s + 10
  !$omp end sections
  !$omp single
  s = s + 100
  !$omp end single
  !$omp masked
  s = s + 1000
  !$omp end masked
  !$omp barrier
  !$omp critical (nm)
  s = s + 10000
  !$omp end critical (nm)
  !$omp atomic
  s = max(s, 5)
  !$omp end parallel
  print *, s, sum(r)
  allocate(p(3)); p = 1
  !$omp parallel num_threads(3) private(i) shared(p)
  !$omp do ordered schedule(dynamic)
  do i = 1, 3
    !$omp ordered
    p(i) = p(max(i-1,1)) * 2 + i
    !$omp end ordered
  end do
  !$omp end do
  !$omp workshare
  p = p + 1
  !$omp end workshare
  !$omp end parallel
  print *, p
  do concurrent (i = 1:3)
    p(i) = p(i) * i
  end do
  print *, p
  pcount = 0
  !$omp parallel num_threads(3)
  !$omp single
  !$omp taskgroup task_reduction(+:pcount)
  !$omp taskloop in_reduction(+:pcount) grainsize(2)
  do i = 1, 21
    pcount = pcount + i
  end do
  !$omp end taskloop
  !$omp task in_reduction(+:pcount)
  pcount = pcount + 1000
  !$omp end task
  !$omp end taskgroup
  !$omp end single
  !$omp end parallel
  print *, pcount
  !$omp teams num_teams(2) reduction(+:pcount)
  !$omp distribute parallel do reduction(+:pcount)
  do i = 1, 11
    pcount = pcount + i
  end do
  !$omp end teams
  print *, pcount, omp_get_num_teams(), omp_get_team_num()
end program
