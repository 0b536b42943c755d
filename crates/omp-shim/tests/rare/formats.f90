! Formats whose blanks are part of them.
program formats
  use omp_lib
  implicit none
  character(len=20) :: text
  character(len=3) :: short
  integer :: length
  call omp_set_affinity_format('abc %n  ')
  length = omp_get_affinity_format(text)
  print *, length, '[', text, ']'
  length = omp_get_affinity_format(short)
  print *, length, '[', short, ']'
  length = omp_capture_affinity(text, '')
  print *, length, '[', text, ']'
  length = omp_capture_affinity(text, '   ')
  print *, length, '[', text, ']'
  length = omp_capture_affinity(short, '%0.5n of %N ')
  print *, length, '[', short, ']'
end program
