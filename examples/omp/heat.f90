! Heat in a plate by Jacobi steps, as Fortran loop codes do it.
!
! What it stands for: loop-parallel Fortran programs. Each step is one region with a collapsed loop nest under
! schedule(guided), a reduction for the largest change and for the heat in the plate, and a workshare construct that
! copies the field; every tenth step an ordered loop walks along the border, and lines are counted under a lock.
!
! Checked: the heat that flows in through the border is known, so the field's sum is compared with a serial run of the
! same steps; integer sums do not depend on the order, so `fingerprint` (of the field's bits, which no reduction
! touches) is the same for any number of threads.
!
!   heat [--size EDGE] [--work STEPS]
!
! Prints one line of JSON. Exit code: 0 right, 1 wrong result, 2 wrong arguments or no memory.
! Build: gfortran -O2 -ffp-contract=off -fopenmp heat.f90 -o heat
program heat
    use omp_lib
    use, intrinsic :: iso_fortran_env, only: int64, real64, error_unit
    implicit none
    integer :: edge = 600, steps = 400, step, failure
    real(real64), allocatable :: field(:, :), next(:, :), again(:, :)
    real(real64) :: started, seconds, change, warmth, serial_change
    integer(int64) :: print, serial_print
    integer(omp_lock_kind) :: lock
    integer :: lines
    logical :: correct
    character(len=20) :: time

    call read_arguments()
    allocate (field(0:edge + 1, 0:edge + 1), next(0:edge + 1, 0:edge + 1), again(0:edge + 1, 0:edge + 1), stat=failure)
    if (failure /= 0) then
        write (error_unit, '(a,i0,a)') 'heat: no memory for three plates of edge ', edge, '; try a smaller --size'
        stop 2
    end if
    call omp_init_lock(lock)
    lines = 0
    correct = .true.

    call warm_border(field)
    next = field
    started = omp_get_wtime()
    do step = 1, steps
        call step_parallel()
    end do
    seconds = omp_get_wtime() - started
    print = fingerprint_of(field)

    call warm_border(again)
    do step = 1, steps
        call step_serial()
    end do
    serial_print = fingerprint_of(again)
    ! The largest change is a maximum, so it has the same bits in any order; the warmth is a sum, and has not.
    correct = correct .and. print == serial_print .and. change == serial_change
    correct = correct .and. abs(warmth - sum(again(1:edge, 1:edge))) <= 1e-9_real64*max(1.0_real64, warmth)
    correct = correct .and. lines == edge*(steps/10)

    ! F0.6 would leave out the zero before the point, which JSON wants.
    write (time, '(f20.6)') seconds
    write (*, '(3a,i0,a,i0,a,i0,a,i0,a,z16.16,3a)') '{"program":"heat","seconds":', trim(adjustl(time)), ',"size":', edge, &
        ',"work":', steps, ',"threads":', omp_get_max_threads(), ',"regions":', steps, ',"fingerprint":"', print, &
        '","correct":', trim(merge('true ', 'false', correct)), '}'
    call omp_destroy_lock(lock)
    if (.not. correct) stop 1, quiet=.true.

contains

    ! The upper border is hot, with a bump; the rest of the plate is cold.
    subroutine warm_border(plate)
        real(real64), intent(out) :: plate(0:, 0:)
        integer :: i
        plate = 0
        do i = 1, edge
            plate(i, 0) = 100 + mod(i*7, 31)
        end do
    end subroutine

    subroutine step_parallel()
        integer :: i, j
        real(real64) :: fresh
        change = 0
        warmth = 0
        !$omp parallel default(none) shared(field, next, edge, step, change, warmth, lines, lock) private(i, j, fresh)
        !$omp do collapse(2) schedule(guided, 64) reduction(max: change) reduction(+: warmth)
        do j = 1, edge
            do i = 1, edge
                fresh = 0.25_real64*((field(i - 1, j) + field(i + 1, j)) + (field(i, j - 1) + field(i, j + 1)))
                change = max(change, abs(fresh - field(i, j)))
                warmth = warmth + fresh
                next(i, j) = fresh
            end do
        end do
        !$omp end do
        !$omp workshare
        field(1:edge, 1:edge) = next(1:edge, 1:edge)
        !$omp end workshare
        if (mod(step, 10) == 0) then
            !$omp do ordered schedule(dynamic, 16)
            do i = 1, edge
                call omp_set_lock(lock)
                lines = lines + 1
                call omp_unset_lock(lock)
                !$omp ordered
                ! Each point of the border looks at the one before it: only in order are the bits the same.
                field(i, 0) = 0.5_real64*(field(i, 0) + (100 + mod(i*7, 31))) + 1e-3_real64*field(i - 1, 0)
                !$omp end ordered
            end do
            !$omp end do
        end if
        !$omp end parallel
    end subroutine

    subroutine step_serial()
        integer :: i, j
        real(real64) :: fresh
        serial_change = 0
        do j = 1, edge
            do i = 1, edge
                fresh = 0.25_real64*((again(i - 1, j) + again(i + 1, j)) + (again(i, j - 1) + again(i, j + 1)))
                serial_change = max(serial_change, abs(fresh - again(i, j)))
                next(i, j) = fresh
            end do
        end do
        again(1:edge, 1:edge) = next(1:edge, 1:edge)
        if (mod(step, 10) == 0) then
            do i = 1, edge
                again(i, 0) = 0.5_real64*(again(i, 0) + (100 + mod(i*7, 31))) + 1e-3_real64*again(i - 1, 0)
            end do
        end if
    end subroutine

    ! The exclusive or of each value's bits, turned by its place.
    function fingerprint_of(plate) result(found)
        real(real64), intent(in) :: plate(0:, 0:)
        integer(int64) :: found
        integer :: i, j
        found = 0
        do j = 0, edge + 1
            do i = 0, edge + 1
                found = ieor(found, ishftc(transfer(plate(i, j), found), mod(i + 3*j, 64)))
            end do
        end do
    end function

    subroutine read_arguments()
        character(len=64) :: name, text
        integer :: at
        at = 1
        do while (at <= command_argument_count())
            call get_command_argument(at, name)
            call get_command_argument(at + 1, text)
            select case (name)
            case ('--size')
                edge = whole(name, text, 10000)
            case ('--work')
                steps = whole(name, text, 1000000000)
            case default
                write (error_unit, '(3a)') "heat: unknown argument '", trim(name), &
                    "'; usage: heat [--size EDGE] [--work STEPS]"
                stop 2, quiet=.true.
            end select
            at = at + 2
        end do
    end subroutine

    integer function whole(name, text, most)
        character(len=*), intent(in) :: name, text
        integer, intent(in) :: most
        integer :: state
        state = 1
        if (len_trim(text) > 0 .and. verify(trim(text), '0123456789') == 0) read (text, *, iostat=state) whole
        if (state == 0) then
            if (whole >= 1 .and. whole <= most) return
        end if
        write (error_unit, '(3a,i0,3a)') 'heat: ', trim(name), ' wants a whole number from 1 to ', most, ", not '", &
            trim(text), "'"
        stop 2, quiet=.true.
    end function
end program
