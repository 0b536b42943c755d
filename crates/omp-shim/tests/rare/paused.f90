! omp_pause_resource: threadprivate data of all threads but the initial one begin anew.
program paused
  use omp_lib
  implicit none
  integer, save :: plain = 3
  integer, allocatable, save :: list(:)
  integer, save :: copied = 5
  !$omp threadprivate(plain, list, copied)
  integer :: plains(0:3), commons(0:3)
  logical :: there(0:3)
  call change()
  call show()
  print *, omp_pause_resource(omp_pause_soft, omp_get_initial_device())
  call show()
  call change()
  print *, omp_pause_resource_all(omp_pause_hard)
  call show()
contains
  subroutine change()
    copied = 12
    !$omp parallel num_threads(4) copyin(copied)
    plain = 100 + omp_get_thread_num()
    copied = copied + omp_get_thread_num()
    if (.not. allocated(list)) allocate(list(2))
    !$omp end parallel
  end subroutine
  subroutine show()
    !$omp parallel num_threads(4)
    plains(omp_get_thread_num()) = plain
    commons(omp_get_thread_num()) = copied
    there(omp_get_thread_num()) = allocated(list)
    !$omp end parallel
    print *, plains, commons, there
  end subroutine
end program
