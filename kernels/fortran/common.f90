! What the Fortran kernels share: random numbers, clock, command line, checks and report.
! The same as c/common; the text of its headers holds here too.

! x(k+1) = a x(k) mod 2^46, and the uniform number r(k) = x(k) / 2^46.
module kernel_random
    use, intrinsic :: iso_fortran_env, only: int64, real64
    implicit none
    private
    public :: random_times, random_power, random_skip, random_next, random_a

    integer(int64), parameter :: random_a = 1220703125_int64 ! 5^13
    integer(int64), parameter :: two23 = 2_int64**23, two46 = 2_int64**46
    real(real64), parameter :: unit = 0.5_real64**46

contains

    ! a x mod 2^46, in halves of 23 bits, since Fortran's integers must not overflow.
    pure function random_times(a, x) result(product)
        integer(int64), intent(in) :: a, x
        integer(int64) :: product, a1, a2, x1, x2, upper
        a1 = shiftr(a, 23)
        a2 = iand(a, two23 - 1)
        x1 = shiftr(x, 23)
        x2 = iand(x, two23 - 1)
        upper = iand(a1*x2 + a2*x1, two23 - 1)
        product = iand(upper*two23 + a2*x2, two46 - 1)
    end function

    ! a^n mod 2^46.
    pure function random_power(a, n) result(power)
        integer(int64), intent(in) :: a, n
        integer(int64) :: power, square, rest
        power = 1
        square = iand(a, two46 - 1)
        rest = n
        do while (rest > 0)
            if (btest(rest, 0)) power = random_times(power, square)
            square = random_times(square, square)
            rest = shiftr(rest, 1)
        end do
    end function

    ! The seed after n steps.
    pure function random_skip(seed, n) result(skipped)
        integer(int64), intent(in) :: seed, n
        integer(int64) :: skipped
        skipped = random_times(random_power(random_a, n), seed)
    end function

    ! Steps the seed, gives the new number.
    subroutine random_next(seed, number)
        integer(int64), intent(inout) :: seed
        real(real64), intent(out) :: number
        seed = random_times(random_a, seed)
        number = real(seed, real64)*unit
    end subroutine

end module

module kernel_clock
    use, intrinsic :: iso_fortran_env, only: int64, real64
    implicit none
    private
    public :: clock_seconds

contains

    function clock_seconds() result(seconds)
        real(real64) :: seconds
        integer(int64) :: count, rate
        call system_clock(count, rate)
        seconds = real(count, real64)/real(rate, real64)
    end function

end module

! NAME [--class S|W|A|B] [--seconds T | --repeat N] [--json] [--quiet]
module kernel_options
    use, intrinsic :: iso_fortran_env, only: error_unit, output_unit, real64
    use, intrinsic :: iso_c_binding, only: c_int
    implicit none
    private
    public :: options, options_read, options_row, program_exit

    type :: options
        character :: class = 'S'
        real(real64) :: seconds = 0 ! 0: count by `repeat`
        integer :: repeat = 1
        logical :: json = .false., quiet = .false.
    end type

    character(*), parameter :: classes = 'SWAB'

    interface
        subroutine c_exit(code) bind(c, name='exit')
            import :: c_int
            integer(c_int), value :: code
        end subroutine
    end interface

contains

    ! Ends the program with this exit code, without the words of STOP.
    subroutine program_exit(code)
        integer, intent(in) :: code
        flush (output_unit)
        flush (error_unit)
        call c_exit(int(code, c_int))
    end subroutine

    subroutine refuse(why)
        character(*), intent(in) :: why
        character(:), allocatable :: name
        name = argument(0)
        write (error_unit, '(a)') name//': '//why
        write (error_unit, '(a)') 'usage: '//name// &
            ' [--class S|W|A|B] [--seconds T | --repeat N] [--json] [--quiet]'
        call program_exit(2)
    end subroutine

    ! Argument i; the program's name without its folder for i = 0.
    function argument(i) result(text)
        integer, intent(in) :: i
        character(:), allocatable :: text
        integer :: length
        call get_command_argument(i, length=length)
        allocate (character(length) :: text)
        if (length > 0) call get_command_argument(i, text)
        if (i == 0) text = text(index(text, '/', back=.true.) + 1:)
    end function

    function options_read() result(read)
        type(options) :: read
        character(:), allocatable :: option, text
        logical :: counted, limited
        integer :: i
        counted = .false.
        limited = .false.
        i = 1
        do while (i <= command_argument_count())
            option = argument(i)
            i = i + 1
            select case (option)
            case ('--json')
                read%json = .true.
                cycle
            case ('--quiet')
                read%quiet = .true.
                cycle
            case ('--class', '--seconds', '--repeat')
                if (i > command_argument_count()) call refuse(option//' needs a value')
            case default
                call refuse("unknown option '"//option//"'")
            end select
            text = argument(i)
            i = i + 1
            select case (option)
            case ('--class')
                if (len(text) /= 1 .or. index(classes, text) == 0) &
                    call refuse("unknown class '"//text//"': S, W, A and B exist")
                read%class = text(1:1)
            case ('--seconds')
                read%seconds = positive(option, text)
                limited = .true.
            case ('--repeat')
                read%repeat = whole(option, text)
                counted = .true.
            end select
        end do
        if (counted .and. limited) call refuse('--seconds and --repeat exclude each other')
    end function

    function positive(option, text) result(value)
        character(*), intent(in) :: option, text
        real(real64) :: value
        integer :: status
        value = 0
        status = 1
        if (len(text) > 0 .and. verify(text, '0123456789.eE+-') == 0) read (text, *, iostat=status) value
        if (status /= 0 .or. .not. (value > 0 .and. value < huge(value))) &
            call refuse(option//": '"//text//"' is not a time above 0")
    end function

    function whole(option, text) result(value)
        character(*), intent(in) :: option, text
        integer :: value, status
        value = 0
        status = 1
        if (len(text) > 0 .and. verify(text, '0123456789') == 0) read (text, *, iostat=status) value
        if (status /= 0 .or. value < 1) &
            call refuse(option//": '"//text//"' is not a whole number of at least 1")
    end function

    ! 1 to 4: for tables with one row a class.
    function options_row(chosen) result(row)
        type(options), intent(in) :: chosen
        integer :: row
        row = index(classes, chosen%class)
    end function

end module

! Repeats a kernel's timed section for as long as asked, checks each repetition and reports:
!
!     run = report_begin('cg', chosen, iterations, operations)
!     do while (report_again(run))
!         ... prepare, not timed ...
!         call report_start(run)
!         ... the timed section ...
!         call report_stop(run)
!         call check_close(run, 'zeta', zeta, expected, 1e-10_real64)
!     end do
!     call report_end(run)
module kernel_report
    use, intrinsic :: iso_fortran_env, only: error_unit, real64
    use, intrinsic :: iso_c_binding, only: c_char, c_int, c_null_char, c_null_ptr, c_ptr
    use, intrinsic :: ieee_arithmetic, only: ieee_is_finite
    use omp_lib, only: omp_get_max_threads
    use kernel_clock, only: clock_seconds
    use kernel_options, only: options, program_exit
    implicit none
    private
    public :: report, report_begin, report_again, report_start, report_stop, report_end
    public :: check_close, check_equal

    type :: check
        character(32) :: name
        real(real64) :: value, expected, error, tolerance
        logical :: passed
    end type

    type :: report
        character(:), allocatable :: kernel
        type(options) :: chosen
        integer :: threads, iterations, repetitions, count
        real(real64) :: operations, begun, started
        real(real64), allocatable :: seconds(:)
        type(check), allocatable :: checks(:)
    end type

    ! The result is written by C's library: gfortran's WRITE and FLUSH say nothing of a full disk.
    interface
        function c_puts(line) bind(c, name='puts') result(status)
            import :: c_char, c_int
            character(kind=c_char), intent(in) :: line(*)
            integer(c_int) :: status
        end function

        function c_fflush(file) bind(c, name='fflush') result(status)
            import :: c_int, c_ptr
            type(c_ptr), value :: file
            integer(c_int) :: status
        end function
    end interface

contains

    ! `iterations` and `operations` are those of one repetition.
    function report_begin(kernel, chosen, iterations, operations) result(run)
        character(*), intent(in) :: kernel
        type(options), intent(in) :: chosen
        integer, intent(in) :: iterations
        real(real64), intent(in) :: operations
        type(report) :: run
        run%kernel = kernel
        run%chosen = chosen
        run%threads = omp_get_max_threads()
        run%iterations = iterations
        run%operations = operations
        run%repetitions = 0
        run%count = 0
        run%begun = clock_seconds()
        run%started = run%begun
        allocate (run%seconds(64), run%checks(64))
    end function

    ! Whether another repetition is due. After a failed check: no.
    function report_again(run) result(again)
        type(report), intent(inout) :: run
        logical :: again
        again = .true.
        if (run%repetitions > 0) then
            if (.not. passed(run)) then
                again = .false.
            else if (run%chosen%seconds > 0) then
                again = clock_seconds() - run%begun < run%chosen%seconds
            else
                again = run%repetitions < run%chosen%repeat
            end if
        end if
        if (again) run%count = 0
    end function

    subroutine report_start(run)
        type(report), intent(inout) :: run
        run%started = clock_seconds()
    end subroutine

    subroutine report_stop(run)
        type(report), intent(inout) :: run
        real(real64) :: seconds
        seconds = clock_seconds() - run%started
        if (run%repetitions == size(run%seconds)) run%seconds = [run%seconds, run%seconds]
        run%repetitions = run%repetitions + 1
        run%seconds(run%repetitions) = seconds
    end subroutine

    ! The relative error (where 0 is expected: the difference) must be at most `tolerance`. What is
    ! not a number fails.
    subroutine check_close(run, name, value, expected, tolerance)
        type(report), intent(inout) :: run
        character(*), intent(in) :: name
        real(real64), intent(in) :: value, expected, tolerance
        type(check) :: new
        new%name = name
        new%value = value
        new%expected = expected
        new%tolerance = tolerance
        new%error = abs(value - expected)
        if (abs(expected) > 0) new%error = new%error/abs(expected)
        new%passed = new%error <= tolerance
        if (run%count == size(run%checks)) run%checks = [run%checks, run%checks]
        run%count = run%count + 1
        run%checks(run%count) = new
    end subroutine

    subroutine check_equal(run, name, value, expected)
        type(report), intent(inout) :: run
        character(*), intent(in) :: name
        integer, intent(in) :: value, expected
        call check_close(run, name, real(value, real64), real(expected, real64), 0.0_real64)
    end subroutine

    pure function passed(run)
        type(report), intent(in) :: run
        logical :: passed
        passed = run%count > 0 .and. all(run%checks(1:run%count)%passed)
    end function

    ! A number as JSON knows it: neither infinite nor undefined.
    function number(value) result(text)
        real(real64), intent(in) :: value
        character(:), allocatable :: text
        character(32) :: buffer
        if (ieee_is_finite(value)) then
            write (buffer, '(es25.16e3)') value
            text = trim(adjustl(buffer))
        else
            text = 'null'
        end if
    end function

    ! With a digit in front of the point, other than f0.6.
    function fixed(value) result(text)
        real(real64), intent(in) :: value
        character(:), allocatable :: text
        character(24) :: buffer
        write (buffer, '(f24.6)') value
        text = trim(adjustl(buffer))
    end function

    function decimal(value) result(text)
        integer, intent(in) :: value
        character(:), allocatable :: text
        character(16) :: buffer
        write (buffer, '(i0)') value
        text = trim(buffer)
    end function

    ! Prints the result, on stderr each check that failed; then ends the program: exit code 0, or 1
    ! where a check failed or the result could not be written.
    subroutine report_end(run)
        type(report), intent(in) :: run
        logical :: verified
        real(real64) :: total, mops
        logical :: written
        integer :: i
        verified = passed(run)
        written = .true.
        do i = 1, run%count
            if (.not. run%checks(i)%passed) write (error_unit, '(a)') run%kernel//' class '// &
                run%chosen%class//': verification failed in repetition '// &
                decimal(run%repetitions)//': '//trim(run%checks(i)%name)//' is '// &
                number(run%checks(i)%value)//', expected '//number(run%checks(i)%expected)// &
                ', relative error '//number(run%checks(i)%error)//' (allowed '// &
                number(run%checks(i)%tolerance)//')'
        end do
        if (run%count == 0) write (error_unit, '(a)') run%kernel//': nothing was verified'
        total = sum(run%seconds(1:run%repetitions))
        mops = run%operations*run%repetitions/total*1e-6_real64
        if (.not. run%chosen%quiet .and. run%count > 0) &
            call print_text(run, total, mops, verified, written)
        if (run%chosen%json) call print_json(run, total, mops, verified, written)
        if (c_fflush(c_null_ptr) /= 0 .or. .not. written) then
            write (error_unit, '(a)') run%kernel//': the result could not be written'
            call program_exit(1)
        end if
        call program_exit(merge(0, 1, verified))
    end subroutine

    ! A line on stdout. `written` becomes false where it cannot be written.
    subroutine print_line(line, written)
        character(*), intent(in) :: line
        logical, intent(inout) :: written
        if (c_puts(line//c_null_char) < 0) written = .false.
    end subroutine

    subroutine print_text(run, total, mops, verified, written)
        type(report), intent(in) :: run
        real(real64), intent(in) :: total, mops
        logical, intent(in) :: verified
        logical, intent(inout) :: written
        character(9) :: error
        integer :: worst
        worst = maxloc(run%checks(1:run%count)%error, 1)
        write (error, '(es9.2)') run%checks(worst)%error
        call print_line(run%kernel//' (fortran) class '//run%chosen%class//', threads: '// &
            decimal(run%threads)//', '//decimal(run%iterations)//' iterations, repetitions: '// &
            decimal(run%repetitions), written)
        call print_line('  '//fixed(total/run%repetitions)//' s a repetition ('// &
            fixed(minval(run%seconds(1:run%repetitions)))//' to '// &
            fixed(maxval(run%seconds(1:run%repetitions)))//'), '//fixed(mops)//' Mop/s', written)
        call print_line('  '//trim(merge('verified           ', &
            'VERIFICATION FAILED', verified))//': '//decimal(run%count)// &
            ' checks, largest error'//error//' ('//trim(run%checks(worst)%name)//')', written)
    end subroutine

    subroutine print_json(run, total, mops, verified, written)
        type(report), intent(in) :: run
        real(real64), intent(in) :: total, mops
        logical, intent(in) :: verified
        logical, intent(inout) :: written
        character(:), allocatable :: line
        integer :: i
        line = '{"kernel":"'//run%kernel//'","language":"fortran",'// &
            '"class":"'//run%chosen%class//'","threads":'//decimal(run%threads)// &
            ',"repetitions":'//decimal(run%repetitions)//',"seconds":['
        do i = 1, run%repetitions
            line = line//trim(merge(' ', ',', i == 1))//number(run%seconds(i))
        end do
        line = line//'],"iterations":'//decimal(run%iterations)// &
            ',"seconds_per_iteration":'// &
            number(total/(real(run%repetitions, real64)*run%iterations))//',"mops":'// &
            number(mops)//',"verified":'//trim(merge('true ', 'false', verified))//',"checks":['
        do i = 1, run%count
            line = line//trim(merge(' ', ',', i == 1))//'{"name":"'// &
                trim(run%checks(i)%name)//'","value":'//number(run%checks(i)%value)// &
                ',"expected":'//number(run%checks(i)%expected)//',"error":'// &
                number(run%checks(i)%error)//'}'
        end do
        call print_line(line//']}', written)
    end subroutine

end module
