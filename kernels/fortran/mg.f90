! MG of the NAS parallel benchmarks: V-cycles of multigrid on the Poisson equation in a periodic
! cube, A u = v, where v is +1 and -1 at ten points each.
!
! Each level has n points a side and a layer of copies round them: interior points are 1 .. n, and
! point i of a level lies on point 2 i of the next finer one.

module mg_grid
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use kernel_random, only: random_next, random_skip
    implicit none
    private
    public :: wrap, clear, residual, reduce_residual, smooth, restrict_to, interpolate, norm
    public :: make_charges

    integer(int64), parameter :: seed0 = 314159265_int64
    integer, parameter :: charges = 10

    ! The ten points with the largest keys so far, largest first.
    type :: peaks
        integer :: count = 0
        real(real64) :: key(charges)
        integer(int64) :: place(charges)
    end type

contains

    ! The copies at the ends of the lines of the plane i3, whose interior is complete, and its
    ! outermost lines.
    subroutine wrap_plane(n, plane)
        integer, intent(in) :: n
        real(real64), intent(inout) :: plane(0:n + 1, 0:n + 1)
        integer :: i2
        do i2 = 1, n
            plane(0, i2) = plane(n, i2)
            plane(n + 1, i2) = plane(1, i2)
        end do
        plane(:, 0) = plane(:, n)
        plane(:, n + 1) = plane(:, 1)
    end subroutine

    ! The copies of the outermost planes.
    subroutine wrap_planes(n, g)
        integer, intent(in) :: n
        real(real64), intent(inout) :: g(0:n + 1, 0:n + 1, 0:n + 1)
        integer :: i2
        !$omp parallel do schedule(static)
        do i2 = 0, n + 1
            g(:, i2, 0) = g(:, i2, n)
            g(:, i2, n + 1) = g(:, i2, 1)
        end do
    end subroutine

    subroutine wrap(n, g)
        integer, intent(in) :: n
        real(real64), intent(inout) :: g(0:n + 1, 0:n + 1, 0:n + 1)
        integer :: i3
        do i3 = 1, n
            call wrap_plane(n, g(:, :, i3))
        end do
        call wrap_planes(n, g)
    end subroutine

    subroutine clear(n, g)
        integer, intent(in) :: n
        real(real64), intent(out) :: g(0:n + 1, 0:n + 1, 0:n + 1)
        integer :: i3
        !$omp parallel do schedule(static)
        do i3 = 0, n + 1
            g(:, :, i3) = 0
        end do
    end subroutine

    ! Sums over the neighbours of a line in the plane across it, of each point of the line: the four
    ! beside it, and the four at the corners.
    subroutine cross(n, g, i2, i3, beside, corners)
        integer, intent(in) :: n, i2, i3
        real(real64), intent(in) :: g(0:n + 1, 0:n + 1, 0:n + 1)
        real(real64), intent(out) :: beside(0:n + 1), corners(0:n + 1)
        integer :: i1
        do i1 = 0, n + 1
            beside(i1) = g(i1, i2 - 1, i3) + g(i1, i2 + 1, i3) + g(i1, i2, i3 - 1) + g(i1, i2, i3 + 1)
            corners(i1) = g(i1, i2 - 1, i3 - 1) + g(i1, i2 + 1, i3 - 1) &
                          + g(i1, i2 - 1, i3 + 1) + g(i1, i2 + 1, i3 + 1)
        end do
    end subroutine

    ! One line of A u. A is -8/3 at the point, 0 at its sides, 1/6 at its edges, 1/12 at its corners.
    subroutine times_a(n, u, i2, i3, beside, corners, product)
        integer, intent(in) :: n, i2, i3
        real(real64), intent(in) :: u(0:n + 1, 0:n + 1, 0:n + 1)
        real(real64), intent(out) :: beside(0:n + 1), corners(0:n + 1), product(n)
        integer :: i1
        call cross(n, u, i2, i3, beside, corners)
        do i1 = 1, n
            product(i1) = -(8.0_real64/3)*u(i1, i2, i3) &
                          + (1.0_real64/6)*(corners(i1) + beside(i1 - 1) + beside(i1 + 1)) &
                          + (1.0_real64/12)*(corners(i1 - 1) + corners(i1 + 1))
        end do
    end subroutine

    ! r = v - A u.
    subroutine residual(n, u, v, r)
        integer, intent(in) :: n
        real(real64), intent(in) :: u(0:n + 1, 0:n + 1, 0:n + 1), v(0:n + 1, 0:n + 1, 0:n + 1)
        real(real64), intent(inout) :: r(0:n + 1, 0:n + 1, 0:n + 1)
        real(real64) :: beside(0:n + 1), corners(0:n + 1), product(n)
        integer :: i2, i3
        !$omp parallel do schedule(static) private(beside, corners, product, i2)
        do i3 = 1, n
            do i2 = 1, n
                call times_a(n, u, i2, i3, beside, corners, product)
                r(1:n, i2, i3) = v(1:n, i2, i3) - product
            end do
            call wrap_plane(n, r(:, :, i3))
        end do
        call wrap_planes(n, r)
    end subroutine

    ! r = r - A u.
    subroutine reduce_residual(n, u, r)
        integer, intent(in) :: n
        real(real64), intent(in) :: u(0:n + 1, 0:n + 1, 0:n + 1)
        real(real64), intent(inout) :: r(0:n + 1, 0:n + 1, 0:n + 1)
        real(real64) :: beside(0:n + 1), corners(0:n + 1), product(n)
        integer :: i2, i3
        !$omp parallel do schedule(static) private(beside, corners, product, i2)
        do i3 = 1, n
            do i2 = 1, n
                call times_a(n, u, i2, i3, beside, corners, product)
                r(1:n, i2, i3) = r(1:n, i2, i3) - product
            end do
            call wrap_plane(n, r(:, :, i3))
        end do
        call wrap_planes(n, r)
    end subroutine

    ! u = u + S r; the coefficients are those of the point, its sides and its edges.
    subroutine smooth(n, r, u, c)
        integer, intent(in) :: n
        real(real64), intent(in) :: r(0:n + 1, 0:n + 1, 0:n + 1), c(0:2)
        real(real64), intent(inout) :: u(0:n + 1, 0:n + 1, 0:n + 1)
        real(real64) :: beside(0:n + 1), corners(0:n + 1)
        integer :: i1, i2, i3
        !$omp parallel do schedule(static) private(beside, corners, i1, i2)
        do i3 = 1, n
            do i2 = 1, n
                call cross(n, r, i2, i3, beside, corners)
                do i1 = 1, n
                    u(i1, i2, i3) = u(i1, i2, i3) + c(0)*r(i1, i2, i3) &
                                    + c(1)*(r(i1 - 1, i2, i3) + r(i1 + 1, i2, i3) + beside(i1)) &
                                    + c(2)*(corners(i1) + beside(i1 - 1) + beside(i1 + 1))
                end do
            end do
            call wrap_plane(n, u(:, :, i3))
        end do
        call wrap_planes(n, u)
    end subroutine

    ! coarse = P fine: 1/2 of the point, 1/4 of its sides, 1/8 of its edges, 1/16 of its corners.
    subroutine restrict_to(n, fine, coarse)
        integer, intent(in) :: n
        real(real64), intent(in) :: fine(0:2*n + 1, 0:2*n + 1, 0:2*n + 1)
        real(real64), intent(inout) :: coarse(0:n + 1, 0:n + 1, 0:n + 1)
        real(real64) :: beside(0:2*n + 1), corners(0:2*n + 1)
        integer :: i1, i2, i3, f
        !$omp parallel do schedule(static) private(beside, corners, i1, i2, f)
        do i3 = 1, n
            do i2 = 1, n
                call cross(2*n, fine, 2*i2, 2*i3, beside, corners)
                do i1 = 1, n
                    f = 2*i1
                    coarse(i1, i2, i3) = 0.5_real64*fine(f, 2*i2, 2*i3) &
                        + 0.25_real64*(fine(f - 1, 2*i2, 2*i3) + fine(f + 1, 2*i2, 2*i3) + beside(f)) &
                        + 0.125_real64*(corners(f) + beside(f - 1) + beside(f + 1)) &
                        + 0.0625_real64*(corners(f - 1) + corners(f + 1))
                end do
            end do
            call wrap_plane(n, coarse(:, :, i3))
        end do
        call wrap_planes(n, coarse)
    end subroutine

    ! Adds one line of Q z: the even points take `from` as it is, the odd ones the mean of two.
    subroutine spread_line(n, from, scale, to)
        integer, intent(in) :: n
        real(real64), intent(in) :: from(0:n + 1), scale
        real(real64), intent(inout) :: to(0:2*n + 1)
        integer :: i
        do i = 0, n
            to(2*i) = to(2*i) + scale*from(i)
            to(2*i + 1) = to(2*i + 1) + 0.5_real64*scale*(from(i) + from(i + 1))
        end do
    end subroutine

    ! fine = fine + Q coarse, or fine = Q coarse; the copies too, so that nothing is wrapped after it.
    subroutine interpolate(n, coarse, fine, add)
        integer, intent(in) :: n
        real(real64), intent(in) :: coarse(0:n + 1, 0:n + 1, 0:n + 1)
        real(real64), intent(inout) :: fine(0:2*n + 1, 0:2*n + 1, 0:2*n + 1)
        logical, intent(in) :: add
        real(real64) :: up(0:n + 1), over(0:n + 1), both(0:n + 1)
        integer :: i2, i3
        !$omp parallel do schedule(static) private(up, over, both, i2)
        do i3 = 0, n
            do i2 = 0, n
                up = coarse(:, i2, i3) + coarse(:, i2 + 1, i3)
                over = coarse(:, i2, i3) + coarse(:, i2, i3 + 1)
                both = up + coarse(:, i2, i3 + 1) + coarse(:, i2 + 1, i3 + 1)
                if (.not. add) fine(:, 2*i2:2*i2 + 1, 2*i3:2*i3 + 1) = 0
                call spread_line(n, coarse(:, i2, i3), 1.0_real64, fine(:, 2*i2, 2*i3))
                call spread_line(n, up, 0.5_real64, fine(:, 2*i2 + 1, 2*i3))
                call spread_line(n, over, 0.5_real64, fine(:, 2*i2, 2*i3 + 1))
                call spread_line(n, both, 0.25_real64, fine(:, 2*i2 + 1, 2*i3 + 1))
            end do
        end do
    end subroutine

    ! The root of the mean square of the interior points.
    function norm(n, r) result(root)
        integer, intent(in) :: n
        real(real64), intent(in) :: r(0:n + 1, 0:n + 1, 0:n + 1)
        real(real64) :: root
        integer :: i1, i2, i3
        root = 0
        !$omp parallel do schedule(static) reduction(+:root) private(i1, i2)
        do i3 = 1, n
            do i2 = 1, n
                !$omp simd reduction(+:root)
                do i1 = 1, n
                    root = root + r(i1, i2, i3)**2
                end do
            end do
        end do
        root = sqrt(root/real(n, real64)**3)
    end function

    subroutine offer(list, key, place)
        type(peaks), intent(inout) :: list
        real(real64), intent(in) :: key
        integer(int64), intent(in) :: place
        integer :: at
        if (list%count == charges) then
            if (key <= list%key(charges)) return
        else
            list%count = list%count + 1
        end if
        at = list%count
        do while (at > 1)
            if (list%key(at - 1) >= key) exit
            list%key(at) = list%key(at - 1)
            list%place(at) = list%place(at - 1)
            at = at - 1
        end do
        list%key(at) = key
        list%place(at) = place
    end subroutine

    subroutine put_charges(n, v, list, charge)
        integer, intent(in) :: n
        real(real64), intent(inout) :: v(0:n + 1, 0:n + 1, 0:n + 1)
        type(peaks), intent(in) :: list
        real(real64), intent(in) :: charge
        integer(int64) :: place, side
        integer :: i
        side = n
        do i = 1, list%count
            place = list%place(i)
            v(mod(place, side) + 1, mod(place/side, side) + 1, place/(side*side) + 1) = charge
        end do
    end subroutine

    ! v: one random number a point, +1 at the ten largest, -1 at the ten smallest, 0 elsewhere.
    subroutine make_charges(n, v)
        integer, intent(in) :: n
        real(real64), intent(inout) :: v(0:n + 1, 0:n + 1, 0:n + 1)
        type(peaks) :: largest, smallest, high, low
        integer(int64) :: plane, i, seed
        real(real64) :: key
        integer :: i3, p
        call clear(n, v)
        plane = int(n, int64)**2
        !$omp parallel private(high, low, i3, i, p, seed, key)
        high%count = 0
        low%count = 0
        !$omp do schedule(static)
        do i3 = 0, n - 1
            seed = random_skip(seed0, i3*plane)
            do i = i3*plane, (i3 + 1)*plane - 1
                call random_next(seed, key)
                call offer(high, key, i)
                call offer(low, -key, i)
            end do
        end do
        !$omp end do
        !$omp critical
        do p = 1, high%count
            call offer(largest, high%key(p), high%place(p))
            call offer(smallest, low%key(p), low%place(p))
        end do
        !$omp end critical
        !$omp end parallel
        call put_charges(n, v, largest, 1.0_real64)
        call put_charges(n, v, smallest, -1.0_real64)
        call wrap(n, v)
    end subroutine

end module

program mg
    use, intrinsic :: iso_fortran_env, only: real64
    use kernel_options, only: options, options_read, options_row
    use kernel_report
    use mg_grid
    implicit none

    integer, parameter :: log2_n(4) = [5, 7, 8, 8], iterations(4) = [4, 4, 4, 20]
    real(real64), parameter :: norms(4) = [0.5307707005734e-04_real64, 0.6467329375339e-05_real64, &
                                           0.2433365309069e-05_real64, 0.1800564401355e-05_real64]
    type :: grid
        integer :: n
        real(real64), allocatable :: at(:, :, :)
    end type
    type(options) :: chosen
    type(report) :: run
    type(grid), allocatable :: u(:), r(:)
    real(real64), allocatable :: v(:, :, :)
    real(real64) :: c(0:2), result
    integer :: row, top, n, k, i

    chosen = options_read()
    row = options_row(chosen)
    top = log2_n(row)
    n = 2**top
    if (chosen%class == 'B') then
        c = [-3.0_real64/17, 1.0_real64/33, -1.0_real64/61]
    else
        c = [-3.0_real64/8, 1.0_real64/32, -1.0_real64/64]
    end if
    allocate (u(top), r(top), v(0:n + 1, 0:n + 1, 0:n + 1))
    do k = 1, top
        u(k)%n = 2**k
        r(k)%n = 2**k
        allocate (u(k)%at(0:2**k + 1, 0:2**k + 1, 0:2**k + 1))
        allocate (r(k)%at(0:2**k + 1, 0:2**k + 1, 0:2**k + 1))
        call clear(u(k)%n, u(k)%at)
        call clear(r(k)%n, r(k)%at)
    end do
    call make_charges(n, v)
    run = report_begin('mg', chosen, iterations(row), 58*real(n, real64)**3*iterations(row))
    do while (report_again(run))
        call clear(n, u(top)%at)
        call report_start(run)
        call residual(n, u(top)%at, v, r(top)%at)
        do i = 1, iterations(row)
            call cycle()
            call residual(n, u(top)%at, v, r(top)%at)
        end do
        result = norm(n, r(top)%at)
        call report_stop(run)
        call check_close(run, 'norm of the residual', result, norms(row), 1e-8_real64)
    end do
    call report_end(run)

contains

    ! One V-cycle: u = u + M r.
    subroutine cycle()
        integer :: k
        do k = top, 2, -1
            call restrict_to(r(k - 1)%n, r(k)%at, r(k - 1)%at)
        end do
        call clear(u(1)%n, u(1)%at)
        call smooth(u(1)%n, r(1)%at, u(1)%at, c)
        do k = 2, top - 1
            call interpolate(u(k - 1)%n, u(k - 1)%at, u(k)%at, .false.)
            call reduce_residual(u(k)%n, u(k)%at, r(k)%at)
            call smooth(u(k)%n, r(k)%at, u(k)%at, c)
        end do
        call interpolate(u(top - 1)%n, u(top - 1)%at, u(top)%at, .true.)
        call residual(n, u(top)%at, v, r(top)%at)
        call smooth(n, r(top)%at, u(top)%at, c)
    end subroutine

end program
