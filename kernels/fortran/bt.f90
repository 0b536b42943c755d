! BT of the NAS parallel benchmarks: implicit time steps of the compressible Navier-Stokes equations
! on the unit cube, by three block tridiagonal factors.
!
!     dU/dt = L(U) + H,  U = density, three momenta, energy,  H = -L(exact solution)
!
! L holds the flows, the viscous flows, and artificial dissipation of second and fourth order.
! Every phase takes the lines of points of one direction, each on its own: a line is gathered,
! worked on and put back.

module bt_flow
    use, intrinsic :: iso_fortran_env, only: real64
    implicit none
    private
    public :: field, grid, exact, touch, initialise, right_side, solve, add, change_norm, error_norm
    public :: set_exact

    real(real64), parameter :: c1 = 1.4_real64, c2 = 0.4_real64, c34 = 0.1_real64, c5 = 1.4_real64
    real(real64), parameter :: c1345 = c1*c34*c5, four_thirds = 4/3.0_real64
    ! The dissipation of second order by direction, and of fourth order.
    real(real64), parameter :: second(3) = [0.75_real64, 0.75_real64, 1.0_real64]
    real(real64), parameter :: fourth = 0.25_real64

    ! The exact solution's coefficients: for each unknown the constant, then x, y, z, their
    ! squares, cubes and fourth powers.
    ! In hundredths.
    real(real64), parameter :: coefficients(13, 5) = reshape([real(real64) :: &
        200, 0, 0, 400, 500, 300, 50, 2, 1, 3, 50, 40, 30, &
        100, 0, 0, 0, 100, 200, 300, 1, 3, 2, 40, 30, 50, &
        200, 200, 0, 0, 0, 200, 300, 4, 3, 5, 30, 50, 40, &
        200, 200, 0, 0, 0, 200, 300, 3, 5, 4, 20, 10, 30, &
        500, 400, 300, 200, 10, 40, 30, 5, 4, 3, 10, 30, 20], [13, 5])/100

    type :: field
        ! (unknown, x, y, z); odd extents in x and y, so that points above each other do not all
        ! meet in the same sets of a cache.
        real(real64), allocatable :: at(:, :, :, :)
    end type

    type :: grid
        integer :: n
        real(real64) :: h, dt
        type(field) :: state, change, force
    end type

contains

    pure function exact(x, y, z) result(u)
        real(real64), intent(in) :: x, y, z
        real(real64) :: u(5), place(3)
        integer :: m, d
        place = [x, y, z]
        do m = 1, 5
            u(m) = coefficients(1, m)
            do d = 1, 3
                u(m) = u(m) + place(d)*(coefficients(1 + d, m) + place(d)*(coefficients(4 + d, m) &
                       + place(d)*(coefficients(7 + d, m) + place(d)*coefficients(10 + d, m))))
            end do
        end do
    end function

    ! Allocates the fields; the first touch is in the loops' distribution.
    subroutine touch(g)
        type(grid), intent(inout) :: g
        integer :: n, odd, k
        n = g%n
        odd = n + 1 - mod(n, 2)
        allocate (g%state%at(5, odd, odd, n), g%change%at(5, odd, odd, n))
        allocate (g%force%at(5, odd, odd, n))
        !$omp parallel do schedule(static)
        do k = 1, n
            g%state%at(:, :, :, k) = 1
            g%change%at(:, :, :, k) = 0
            g%force%at(:, :, :, k) = 0
        end do
    end subroutine

    subroutine set_exact(g)
        type(grid), intent(inout) :: g
        integer :: i, j, k
        !$omp parallel do schedule(static) private(i, j)
        do k = 1, g%n
            do j = 1, g%n
                do i = 1, g%n
                    g%state%at(:, i, j, k) = exact((i - 1)*g%h, (j - 1)*g%h, (k - 1)*g%h)
                end do
            end do
        end do
    end subroutine

    ! The exact solution on the boundary, its interpolation inside.
    subroutine initialise(g)
        type(grid), intent(inout) :: g
        real(real64) :: x, y, z, p(5, 3)
        integer :: i, j, k
        call set_exact(g)
        !$omp parallel do schedule(static) private(i, j, x, y, z, p)
        do k = 2, g%n - 1
            do j = 2, g%n - 1
                do i = 2, g%n - 1
                    x = (i - 1)*g%h
                    y = (j - 1)*g%h
                    z = (k - 1)*g%h
                    p(:, 1) = (1 - x)*exact(0.0_real64, y, z) + x*exact(1.0_real64, y, z)
                    p(:, 2) = (1 - y)*exact(x, 0.0_real64, z) + y*exact(x, 1.0_real64, z)
                    p(:, 3) = (1 - z)*exact(x, y, 0.0_real64) + z*exact(x, y, 1.0_real64)
                    g%state%at(:, i, j, k) = p(:, 1) + p(:, 2) + p(:, 3) - p(:, 1)*p(:, 2) &
                                             - p(:, 2)*p(:, 3) - p(:, 3)*p(:, 1) &
                                             + p(:, 1)*p(:, 2)*p(:, 3)
                end do
            end do
        end do
    end subroutine

    ! The flows along a line: what one direction adds to L at its inner points.
    subroutine flow_line(n, direction, h, u, r)
        integer, intent(in) :: n, direction
        real(real64), intent(in) :: h, u(n, 5)
        real(real64), intent(out) :: r(n, 5)
        real(real64), dimension(n) :: along, kinetic, half, inner
        real(real64) :: velocity(n, 3), first, viscous, artificial, c
        integer :: i, d, m
        first = 1/(2*h)
        viscous = c34/(h*h)
        artificial = second(direction)/(h*h)
        do i = 1, n
            inner(i) = 1/u(i, 1)
            velocity(i, 1) = u(i, 2)*inner(i)
            velocity(i, 2) = u(i, 3)*inner(i)
            velocity(i, 3) = u(i, 4)*inner(i)
            half(i) = 0.5_real64*(velocity(i, 1)**2 + velocity(i, 2)**2 + velocity(i, 3)**2)
            kinetic(i) = half(i)*u(i, 1)
            inner(i) = u(i, 5)*inner(i)
        end do
        along = velocity(:, direction)
        do i = 2, n - 1
            r(i, 1) = -first*(u(i + 1, 1 + direction) - u(i - 1, 1 + direction))
        end do
        do d = 1, 3
            c = viscous
            if (d == direction) c = four_thirds*viscous
            do i = 2, n - 1
                r(i, 1 + d) = c*(velocity(i + 1, d) - 2*velocity(i, d) + velocity(i - 1, d)) &
                              - first*(u(i + 1, 1 + d)*along(i + 1) - u(i - 1, 1 + d)*along(i - 1))
            end do
        end do
        d = 1 + direction
        do i = 2, n - 1
            r(i, d) = r(i, d) - first*c2*(u(i + 1, 5) - kinetic(i + 1) &
                                          - u(i - 1, 5) + kinetic(i - 1))
            r(i, 5) = viscous*((1 - c1*c5)*(half(i + 1) - 2*half(i) + half(i - 1)) &
                               + (along(i + 1)**2 - 2*along(i)**2 + along(i - 1)**2)/6 &
                               + c1*c5*(inner(i + 1) - 2*inner(i) + inner(i - 1))) &
                      - first*((c1*u(i + 1, 5) - c2*kinetic(i + 1))*along(i + 1) &
                               - (c1*u(i - 1, 5) - c2*kinetic(i - 1))*along(i - 1))
        end do
        do m = 1, 5
            do i = 2, n - 1
                r(i, m) = r(i, m) + artificial*(u(i + 1, m) - 2*u(i, m) + u(i - 1, m))
            end do
            ! Next to the boundary the fourth difference leaves out the points beyond it.
            r(2, m) = r(2, m) - fourth*(5*u(2, m) - 4*u(3, m) + u(4, m))
            r(3, m) = r(3, m) - fourth*(-4*u(2, m) + 6*u(3, m) - 4*u(4, m) + u(5, m))
            do i = 4, n - 3
                r(i, m) = r(i, m) - fourth*(u(i - 2, m) - 4*u(i - 1, m) + 6*u(i, m) &
                                            - 4*u(i + 1, m) + u(i + 2, m))
            end do
            r(n - 2, m) = r(n - 2, m) - fourth*(u(n - 4, m) - 4*u(n - 3, m) + 6*u(n - 2, m) &
                                                - 4*u(n - 1, m))
            r(n - 1, m) = r(n - 1, m) - fourth*(u(n - 3, m) - 4*u(n - 2, m) + 5*u(n - 1, m))
        end do
    end subroutine

    ! change = scale (L(state) + H) at the inner points.
    subroutine right_side(g, scale)
        type(grid), intent(inout) :: g
        real(real64), intent(in) :: scale
        real(real64) :: u(g%n, 5), r(g%n, 5)
        integer :: n, i, j, k, m, p
        n = g%n
        !$omp parallel private(u, r, i, j, k, m, p)
        !$omp do schedule(static)
        do k = 2, n - 1
            do j = 2, n - 1
                do p = 1, n
                    u(p, :) = g%state%at(:, p, j, k)
                end do
                call flow_line(n, 1, g%h, u, r)
                do p = 2, n - 1
                    do m = 1, 5
                        g%change%at(m, p, j, k) = g%force%at(m, p, j, k) + r(p, m)
                    end do
                end do
            end do
            do i = 2, n - 1
                do p = 1, n
                    u(p, :) = g%state%at(:, i, p, k)
                end do
                call flow_line(n, 2, g%h, u, r)
                do p = 2, n - 1
                    do m = 1, 5
                        g%change%at(m, i, p, k) = g%change%at(m, i, p, k) + r(p, m)
                    end do
                end do
            end do
        end do
        !$omp do schedule(static)
        do j = 2, n - 1
            do i = 2, n - 1
                do p = 1, n
                    u(p, :) = g%state%at(:, i, j, p)
                end do
                call flow_line(n, 3, g%h, u, r)
                do p = 2, n - 1
                    do m = 1, 5
                        g%change%at(m, i, j, p) = scale*(g%change%at(m, i, j, p) + r(p, m))
                    end do
                end do
            end do
        end do
        !$omp end parallel
    end subroutine

    ! A point's blocks, (column, row): in its own block row, in that of the point after it
    ! (`lower`), in that of the point before it (`upper`).
    subroutine blocks(direction, t1, t2, u, lower, own, upper)
        integer, intent(in) :: direction
        real(real64), intent(in) :: t1, t2, u(5)
        real(real64), intent(out), dimension(5, 5) :: lower, own, upper
        real(real64) :: a(5, 5), v(5, 5), velocity(3), inverse, half, energy, along, c
        integer :: d, row, column, o
        inverse = 1/u(1)
        velocity = u(2:4)*inverse
        half = 0.5_real64*(velocity(1)**2 + velocity(2)**2 + velocity(3)**2)
        energy = u(5)*inverse
        along = velocity(direction)
        o = 1 + direction
        a = 0
        v = 0
        ! The flow's Jacobian matrix.
        a(o, 1) = 1
        do d = 1, 3
            a(1, 1 + d) = -velocity(d)*along
            a(1 + d, 1 + d) = along
            a(1 + d, 5) = -c2*velocity(d)*along
        end do
        do d = 1, 3
            a(o, 1 + d) = a(o, 1 + d) + velocity(d)
        end do
        do d = 1, 3
            a(1 + d, o) = a(1 + d, o) - c2*velocity(d)
        end do
        a(1, o) = a(1, o) + c2*half
        a(5, o) = c2
        a(1, 5) = along*(2*c2*half - c1*energy)
        a(o, 5) = a(o, 5) + c1*energy - c2*half
        a(5, 5) = c1*along
        ! The viscous flow's, with the dissipation of second order.
        v(1, 5) = -c1345*energy*inverse
        do d = 1, 3
            c = c34
            if (d == direction) c = four_thirds*c34
            v(1, 1 + d) = -c*velocity(d)*inverse
            v(1 + d, 1 + d) = c*inverse
            v(1, 5) = v(1, 5) - (c - c1345)*velocity(d)**2*inverse
            v(1 + d, 5) = (c - c1345)*velocity(d)*inverse
        end do
        v(5, 5) = c1345*inverse
        do row = 1, 5
            v(row, row) = v(row, row) + second(direction)
        end do
        do row = 1, 5
            do column = 1, 5
                lower(column, row) = -t2*a(column, row) - t1*v(column, row)
                upper(column, row) = t2*a(column, row) - t1*v(column, row)
                own(column, row) = 2*t1*v(column, row)
            end do
            own(row, row) = own(row, row) + 1
        end do
    end subroutine

    ! Solves the block tridiagonal system of a line; on its ends the change is zero.
    subroutine solve_line(n, direction, t1, t2, u, r)
        integer, intent(in) :: n, direction
        real(real64), intent(in) :: t1, t2, u(5, n)
        real(real64), intent(inout) :: r(5, n)
        real(real64), dimension(5, 5, 0:2) :: lower, own, upper ! of three points, modulo 3
        ! An eliminated block row: what multiplies the next change, then the right-hand side.
        real(real64) :: left(6, 5, n)
        ! One being eliminated: its own block, the right-hand side, the upper block, a filler.
        real(real64) :: w(12, 5), factor
        integer :: m, here, after, before, p, row, e
        call blocks(direction, t1, t2, u(:, 2), lower(:, :, 2), own(:, :, 2), upper(:, :, 2))
        left(:, :, 1) = 0
        do m = 2, n - 1
            here = mod(m, 3)
            after = mod(m + 1, 3)
            before = mod(m + 2, 3)
            call blocks(direction, t1, t2, u(:, m + 1), lower(:, :, after), own(:, :, after), &
                        upper(:, :, after))
            do row = 1, 5
                w(1:5, row) = own(:, row, here)
                w(6, row) = r(row, m)
                w(7:11, row) = upper(:, row, after)
                w(12, row) = 0
            end do
            if (m > 2) then
                do row = 1, 5
                    do e = 1, 5
                        w(1:6, row) = w(1:6, row) - lower(e, row, before)*left(:, e, m - 1)
                    end do
                end do
            end if
            ! Gauss and Jordan's elimination without pivots: the diagonal dominates.
            do p = 1, 5
                factor = 1/w(p, p)
                w(:, p) = factor*w(:, p)
                do row = 1, 5
                    if (row /= p) then
                        factor = w(p, row)
                        w(:, row) = w(:, row) - factor*w(:, p)
                    end if
                end do
            end do
            do row = 1, 5
                left(1:5, row, m) = w(7:11, row)
                left(6, row, m) = w(6, row)
            end do
        end do
        r(:, n - 1) = left(6, :, n - 1)
        do m = n - 2, 2, -1
            do row = 1, 5
                r(row, m) = left(6, row, m) - sum(left(1:5, row, m)*r(:, m + 1))
            end do
        end do
    end subroutine

    ! All lines of one direction.
    subroutine solve(g, direction)
        type(grid), intent(inout) :: g
        integer, intent(in) :: direction
        real(real64) :: u(5, g%n), r(5, g%n), t1, t2
        integer :: n, a, b, p
        n = g%n
        t1 = g%dt/(g%h*g%h)
        t2 = g%dt/(2*g%h)
        !$omp parallel do schedule(static) private(a, p, u, r)
        do b = 2, n - 1
            do a = 2, n - 1
                select case (direction)
                case (1)
                    u = g%state%at(:, 1:n, a, b)
                    r = g%change%at(:, 1:n, a, b)
                    call solve_line(n, 1, t1, t2, u, r)
                    do p = 2, n - 1
                        g%change%at(:, p, a, b) = r(:, p)
                    end do
                case (2)
                    u = g%state%at(:, a, 1:n, b)
                    r = g%change%at(:, a, 1:n, b)
                    call solve_line(n, 2, t1, t2, u, r)
                    do p = 2, n - 1
                        g%change%at(:, a, p, b) = r(:, p)
                    end do
                case default
                    u = g%state%at(:, a, b, 1:n)
                    r = g%change%at(:, a, b, 1:n)
                    call solve_line(n, 3, t1, t2, u, r)
                    do p = 2, n - 1
                        g%change%at(:, a, b, p) = r(:, p)
                    end do
                end select
            end do
        end do
    end subroutine

    subroutine add(g)
        type(grid), intent(inout) :: g
        integer :: j, k, n
        n = g%n
        !$omp parallel do schedule(static) private(j)
        do k = 2, n - 1
            do j = 2, n - 1
                g%state%at(:, 2:n - 1, j, k) = g%state%at(:, 2:n - 1, j, k) &
                                               + g%change%at(:, 2:n - 1, j, k)
            end do
        end do
    end subroutine

    ! Root mean squares over the inner points: of the change, and of the distance of the state from
    ! the exact solution.
    function change_norm(g) result(norm)
        type(grid), intent(in) :: g
        real(real64) :: norm(5)
        integer :: i, j, k
        norm = 0
        !$omp parallel do schedule(static) private(i, j) reduction(+:norm)
        do k = 2, g%n - 1
            do j = 2, g%n - 1
                do i = 2, g%n - 1
                    norm = norm + g%change%at(:, i, j, k)**2
                end do
            end do
        end do
        norm = sqrt(norm/real(g%n - 2, real64)**3)
    end function

    function error_norm(g) result(norm)
        type(grid), intent(in) :: g
        real(real64) :: norm(5)
        integer :: i, j, k
        norm = 0
        !$omp parallel do schedule(static) private(i, j) reduction(+:norm)
        do k = 2, g%n - 1
            do j = 2, g%n - 1
                do i = 2, g%n - 1
                    norm = norm + (g%state%at(:, i, j, k) &
                                   - exact((i - 1)*g%h, (j - 1)*g%h, (k - 1)*g%h))**2
                end do
            end do
        end do
        norm = sqrt(norm/real(g%n - 2, real64)**3)
    end function
end module

program bt
    use, intrinsic :: iso_fortran_env, only: real64
    use kernel_options, only: options, options_read, options_row
    use kernel_report
    use bt_flow
    implicit none

    integer, parameter :: dp = real64
    integer, parameter :: points(4) = [12, 24, 64, 102], steps(4) = [60, 200, 200, 200]
    real(real64), parameter :: times(4) = [0.01_dp, 0.0008_dp, 0.0008_dp, 0.0003_dp]
    ! The published norms of the right-hand side and of the error, by class.
    real(real64), parameter :: residuals(5, 4) = reshape([ &
        1.7034283709541311e-01_dp, 1.2975252070034097e-02_dp, 3.2527926989486055e-02_dp, &
        2.6436421275166801e-02_dp, 1.9211784131744430e-01_dp, &
        0.1125590409344e+03_dp, 0.1180007595731e+02_dp, 0.2710329767846e+02_dp, &
        0.2469174937669e+02_dp, 0.2638427874317e+03_dp, &
        1.0806346714637264e+02_dp, 1.1319730901220813e+01_dp, 2.5974354511582465e+01_dp, &
        2.3665622544678910e+01_dp, 2.5278963211748344e+02_dp, &
        1.4233597229287254e+03_dp, 9.9330522590150238e+01_dp, 3.5646025644535285e+02_dp, &
        3.2485447959084092e+02_dp, 3.2707541254659363e+03_dp], [5, 4])
    real(real64), parameter :: errors(5, 4) = reshape([ &
        4.9976913345811579e-04_dp, 4.5195666782961927e-05_dp, 7.3973765172921357e-05_dp, &
        7.3821238632439731e-05_dp, 8.9269630987491446e-04_dp, &
        0.4419655736008e+01_dp, 0.4638531260002e+00_dp, 0.1011551749967e+01_dp, &
        0.9235878729944e+00_dp, 0.1018045837718e+02_dp, &
        4.2348416040525025e+00_dp, 4.4390282496995698e-01_dp, 9.6692480136345650e-01_dp, &
        8.8302063039765474e-01_dp, 9.7379901770829278e+00_dp, &
        5.2969847140936856e+01_dp, 4.4632896115670668e+00_dp, 1.3122573342210174e+01_dp, &
        1.2006925323559144e+01_dp, 1.2459576151035986e+02_dp], [5, 4])
    type(options) :: chosen
    type(report) :: run
    type(grid) :: g
    real(real64) :: n, norm(5)
    integer :: row, step, direction, k, m
    character(len=16) :: name

    chosen = options_read()
    row = options_row(chosen)
    g%n = points(row)
    g%h = 1/real(g%n - 1, real64)
    g%dt = times(row)
    call touch(g)
    call set_exact(g)
    call right_side(g, -1.0_real64)
    !$omp parallel do schedule(static)
    do k = 1, g%n
        g%force%at(:, :, :, k) = g%change%at(:, :, :, k)
    end do
    n = g%n
    run = report_begin('bt', chosen, steps(row), &
                       steps(row)*(3478.8_real64*n**3 - 17655.7_real64*n**2 + 28023.7_real64*n))
    do while (report_again(run))
        call initialise(g)
        call report_start(run)
        do step = 1, steps(row)
            call right_side(g, g%dt)
            do direction = 1, 3
                call solve(g, direction)
            end do
            call add(g)
        end do
        call report_stop(run)
        call right_side(g, g%dt)
        norm = change_norm(g)/g%dt
        do m = 1, 5
            write (name, '(a, i1)') 'residual ', m
            call check_close(run, trim(name), norm(m), residuals(m, row), 1e-8_real64)
        end do
        norm = error_norm(g)
        do m = 1, 5
            write (name, '(a, i1)') 'error ', m
            call check_close(run, trim(name), norm(m), errors(m, row), 1e-8_real64)
        end do
    end do
    call report_end(run)
end program
