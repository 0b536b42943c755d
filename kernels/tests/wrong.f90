! That a wrong result fails loudly: CG's value of class S with a planted error, as `fortran/cg` would
! report it. Ends with exit code 1, no second repetition, and words on stderr; `make check` sees to
! that. Its argument says what is wrong: `far`, `undefined`, `nothing` (no check at all), or `right`.
program wrong
    use, intrinsic :: iso_fortran_env, only: error_unit, real64
    use, intrinsic :: ieee_arithmetic, only: ieee_quiet_nan, ieee_value
    use kernel_options
    use kernel_report
    implicit none
    real(real64), parameter :: expected = 8.5971775078648_real64
    type(options) :: chosen
    type(report) :: run
    character(16) :: what
    integer :: repetitions
    call get_command_argument(1, what)
    chosen%class = 'S'
    chosen%repeat = 2
    run = report_begin('planted', chosen, 1, 1.0_real64)
    repetitions = 0
    do while (report_again(run))
        call report_start(run)
        call report_stop(run)
        repetitions = repetitions + 1
        select case (what)
        case ('right')
            call check_close(run, 'zeta', expected*(1 + 1e-12_real64), expected, 1e-10_real64)
        case ('far')
            call check_close(run, 'zeta', expected*(1 + 1e-9_real64), expected, 1e-10_real64)
        case ('undefined')
            call check_close(run, 'zeta', ieee_value(expected, ieee_quiet_nan), expected, 1e-10_real64)
        end select
    end do
    if (what /= 'right' .and. repetitions /= 1) then
        write (error_unit, '(a)') 'a failed repetition is not the last one'
        call program_exit(3)
    end if
    call report_end(run)
end program
