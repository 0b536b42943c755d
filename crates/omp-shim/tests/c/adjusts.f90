! A program with threads of its own asks how many it is to have, in Fortran.
program adjusts
  implicit none
  integer, external :: asat_adjust_threads
  integer :: threads, i
  do i = 1, 1000
    threads = asat_adjust_threads(8)
    if (threads < 1 .or. threads > 8) stop 1
  end do
  if (asat_adjust_threads(0) /= 1) stop 2
  print '(a)', 'ok'
end program adjusts
