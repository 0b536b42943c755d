! The calls of page migration from Fortran: as migrates.c.
program migrates
  use omp_lib
  implicit none
  integer, parameter :: n = 512 * 1024 ! of 4 bytes: 512 pages
  integer :: field(n), num_migrations, step, first, calls, i, own
  integer, external :: upmlib_migrate_memory, upmlib_init, upmlib_memrefcnt
  common /num_migrations/ num_migrations
  common /data/ field

  if (upmlib_init() /= 0) stop 1
  if (upmlib_memrefcnt(field, 0) /= -1) stop 2
  if (upmlib_memrefcnt(field, -8) /= -1) stop 6
  if (upmlib_memrefcnt(field, 4 * n) /= 0) stop 3
  field = 0
  calls = 0
  call sweep()
  do step = 1, 10
    if (num_migrations .gt. 0) then
      call sweep()
      i = upmlib_migrate_memory()
      calls = calls + 1
      if (step == 1) first = i
    end if
  end do
  ! The array begins within a page, which belongs to the first half or to the second.
  if (abs(first - 256) > 1) stop 4
  if (calls /= 2 .or. num_migrations /= 0) stop 5
  call upmlib_record()
  call upmlib_compare_counters()
  call upmlib_replay()
  call upmlib_undo()
  print '(a)', 'ok'
contains
  subroutine sweep()
    !$omp parallel num_threads(2) private(own, i)
    own = omp_get_thread_num() * (n / 2)
    do i = own + 1, own + n / 2
      field(i) = field(i) + 1
    end do
    if (own == 0) then
      call upmlib_touched(field(own + 1), 4 * (n / 2))
    else
      call upmlib_loop(field, 4, 4, own, own + n / 2)
    end if
    !$omp end parallel
  end subroutine
end program
