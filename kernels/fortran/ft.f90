! FT of the NAS parallel benchmarks: a heat equation in a periodic box by a fast Fourier transform
! in three dimensions; one inverse transform and one checksum a time step.
!
! A transform takes `lanes` lines at once, element by element side by side, real and imaginary parts
! apart, so that all arithmetic runs over neighbours in memory.

module ft_transform
    use, intrinsic :: iso_fortran_env, only: real64
    implicit none
    private
    public :: roots, make_roots, lanes, longest, transform, pi

    integer, parameter :: lanes = 16, longest = 512
    real(real64), parameter :: pi = 3.14159265358979323846_real64

    ! The roots of unity exp(-2 pi i k / n) of one length.
    type :: roots
        integer :: n = 0
        real(real64) :: re(0:longest - 1) = 0, im(0:longest - 1) = 0
    end type

contains

    function make_roots(n) result(made)
        integer, intent(in) :: n
        type(roots) :: made
        integer :: k
        made%n = n
        do k = 0, n - 1
            made%re(k) = cos(2*pi*k/n)
            made%im(k) = -sin(2*pi*k/n)
        end do
    end function

    ! One pass of the self-sorting transform by four: `width` is the distance of the parts' elements.
    subroutine pass_four(w, l, m, width, xr, xi, yr, yi)
        type(roots), intent(in) :: w
        integer, intent(in) :: l, m, width
        real(real64), intent(in) :: xr(width, 0:l - 1, 0:3), xi(width, 0:l - 1, 0:3)
        real(real64), intent(out) :: yr(width, 0:3, 0:l - 1), yi(width, 0:3, 0:l - 1)
        real(real64) :: r1, i1, r2, i2, r3, i3, acr, aci, bdr, bdi, er, ei, fr, fi, gr, gi
        integer :: j, k
        do j = 0, l - 1
            r1 = w%re(j*m)
            i1 = w%im(j*m)
            r2 = w%re(2*j*m)
            i2 = w%im(2*j*m)
            r3 = w%re(3*j*m)
            i3 = w%im(3*j*m)
            do k = 1, width
                acr = xr(k, j, 0) + xr(k, j, 2)
                aci = xi(k, j, 0) + xi(k, j, 2)
                bdr = xr(k, j, 1) + xr(k, j, 3)
                bdi = xi(k, j, 1) + xi(k, j, 3)
                er = xr(k, j, 0) - xr(k, j, 2)
                ei = xi(k, j, 0) - xi(k, j, 2)
                ! -i times the difference of the others
                fr = xi(k, j, 1) - xi(k, j, 3)
                fi = xr(k, j, 3) - xr(k, j, 1)
                yr(k, 0, j) = acr + bdr
                yi(k, 0, j) = aci + bdi
                gr = er + fr
                gi = ei + fi
                yr(k, 1, j) = gr*r1 - gi*i1
                yi(k, 1, j) = gr*i1 + gi*r1
                gr = acr - bdr
                gi = aci - bdi
                yr(k, 2, j) = gr*r2 - gi*i2
                yi(k, 2, j) = gr*i2 + gi*r2
                gr = er - fr
                gi = ei - fi
                yr(k, 3, j) = gr*r3 - gi*i3
                yi(k, 3, j) = gr*i3 + gi*r3
            end do
        end do
    end subroutine

    ! The last pass where the length is no power of four: by two, without roots.
    subroutine pass_two(width, xr, xi, yr, yi)
        integer, intent(in) :: width
        real(real64), intent(in) :: xr(width, 0:1), xi(width, 0:1)
        real(real64), intent(out) :: yr(width, 0:1), yi(width, 0:1)
        yr(:, 0) = xr(:, 0) + xr(:, 1)
        yi(:, 0) = xi(:, 0) + xi(:, 1)
        yr(:, 1) = xr(:, 0) - xr(:, 1)
        yi(:, 1) = xi(:, 0) - xi(:, 1)
    end subroutine

    ! Transforms the lines in (re, im) forward; backward with the two exchanged. `other` says
    ! whether the result lies in the other pair.
    subroutine transform(w, re, im, other_re, other_im, other)
        type(roots), intent(in) :: w
        real(real64), intent(inout) :: re(lanes*w%n), im(lanes*w%n)
        real(real64), intent(inout) :: other_re(lanes*w%n), other_im(lanes*w%n)
        logical, intent(out) :: other
        integer :: l, m
        l = w%n
        m = 1
        other = .false.
        do while (l >= 4)
            l = l/4
            if (other) then
                call pass_four(w, l, m, m*lanes, other_re, other_im, re, im)
            else
                call pass_four(w, l, m, m*lanes, re, im, other_re, other_im)
            end if
            other = .not. other
            m = m*4
        end do
        if (l == 2) then
            if (other) then
                call pass_two(m*lanes, other_re, other_im, re, im)
            else
                call pass_two(m*lanes, re, im, other_re, other_im)
            end if
            other = .not. other
        end if
    end subroutine

end module

module ft_field
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use kernel_random, only: random_next, random_skip
    use ft_transform
    implicit none
    private
    public :: pad, start_field, evolve, checksum, transform_planes, transform_along_z

    integer(int64), parameter :: seed0 = 314159265_int64
    real(real64), parameter :: alpha = 1e-6_real64
    ! Lines are longer than a power of two, so that neighbours do not fall into the same cache set.
    integer, parameter :: pad = 8

contains

    ! Random numbers, the real part before the imaginary one, x fastest.
    subroutine start_field(nx, ny, nz, re, im)
        integer, intent(in) :: nx, ny, nz
        real(real64), intent(inout) :: re(nx + pad, ny, nz), im(nx + pad, ny, nz)
        integer(int64) :: seed
        integer :: x, y, z
        !$omp parallel do schedule(static) private(seed, x, y)
        do z = 1, nz
            seed = random_skip(seed0, 2*int(nx, int64)*ny*(z - 1))
            do y = 1, ny
                do x = 1, nx
                    call random_next(seed, re(x, y, z))
                    call random_next(seed, im(x, y, z))
                end do
            end do
        end do
    end subroutine

    ! exp(-4 alpha pi^2 t k^2), k from -n/2 to n/2 - 1 in the order of the transform.
    pure function factors(n, t) result(factor)
        integer, intent(in) :: n, t
        real(real64) :: factor(n), k
        integer :: i
        do i = 1, n
            k = merge(i - 1, i - 1 - n, i - 1 < n/2)
            factor(i) = exp(-4*alpha*pi*pi*t*k*k)
        end do
    end function

    ! to = from after t time steps, in frequencies: a product of one factor for each dimension.
    subroutine evolve(nx, ny, nz, t, from_re, from_im, to_re, to_im)
        integer, intent(in) :: nx, ny, nz, t
        real(real64), intent(in) :: from_re(nx + pad, ny, nz), from_im(nx + pad, ny, nz)
        real(real64), intent(inout) :: to_re(nx + pad, ny, nz), to_im(nx + pad, ny, nz)
        real(real64) :: fx(nx), fy(ny), fz(nz), of_line
        integer :: x, y, z
        fx = factors(nx, t)
        fy = factors(ny, t)
        fz = factors(nz, t)
        !$omp parallel do schedule(static) private(x, y, of_line)
        do z = 1, nz
            do y = 1, ny
                of_line = fz(z)*fy(y)
                do x = 1, nx
                    to_re(x, y, z) = from_re(x, y, z)*(of_line*fx(x))
                    to_im(x, y, z) = from_im(x, y, z)*(of_line*fx(x))
                end do
            end do
        end do
    end subroutine

    ! The sum of 1024 elements, divided by the size: the inverse transform's factor.
    subroutine checksum(nx, ny, nz, re, im, sum)
        integer, intent(in) :: nx, ny, nz
        real(real64), intent(in) :: re(nx + pad, ny, nz), im(nx + pad, ny, nz)
        real(real64), intent(out) :: sum(2)
        real(real64) :: sum_re, sum_im, size
        integer :: j, x, y, z
        sum_re = 0
        sum_im = 0
        !$omp parallel do schedule(static) reduction(+:sum_re, sum_im) private(x, y, z)
        do j = 1, 1024
            x = mod(j, nx) + 1
            y = mod(3*j, ny) + 1
            z = mod(5*j, nz) + 1
            sum_re = sum_re + re(x, y, z)
            sum_im = sum_im + im(x, y, z)
        end do
        size = real(nx, real64)*ny*nz
        sum = [sum_re, sum_im]/size
    end subroutine

    ! Every plane along x and y; (re, im) exchanged: backward. The order does not matter.
    subroutine transform_planes(nx, ny, nz, wx, wy, re, im)
        integer, intent(in) :: nx, ny, nz
        type(roots), intent(in) :: wx, wy
        real(real64), intent(inout) :: re(nx + pad, ny, nz), im(nx + pad, ny, nz)
        real(real64), allocatable :: a(:, :), b(:, :), c(:, :), d(:, :)
        logical :: other
        integer :: x, y, z, i
        !$omp parallel private(a, b, c, d, other, x, y, i)
        allocate (a(lanes, longest), b(lanes, longest), c(lanes, longest), d(lanes, longest))
        !$omp do schedule(static)
        do z = 1, nz
            do y = 1, ny, lanes
                do i = 1, nx
                    a(:, i) = re(i, y:y + lanes - 1, z)
                    b(:, i) = im(i, y:y + lanes - 1, z)
                end do
                call transform(wx, a, b, c, d, other)
                if (other) then
                    do i = 0, lanes - 1
                        re(1:nx, y + i, z) = c(i + 1, 1:nx)
                        im(1:nx, y + i, z) = d(i + 1, 1:nx)
                    end do
                else
                    do i = 0, lanes - 1
                        re(1:nx, y + i, z) = a(i + 1, 1:nx)
                        im(1:nx, y + i, z) = b(i + 1, 1:nx)
                    end do
                end if
            end do
            do x = 1, nx, lanes
                a(:, 1:ny) = re(x:x + lanes - 1, :, z)
                b(:, 1:ny) = im(x:x + lanes - 1, :, z)
                call transform(wy, a, b, c, d, other)
                if (other) then
                    re(x:x + lanes - 1, :, z) = c(:, 1:ny)
                    im(x:x + lanes - 1, :, z) = d(:, 1:ny)
                else
                    re(x:x + lanes - 1, :, z) = a(:, 1:ny)
                    im(x:x + lanes - 1, :, z) = b(:, 1:ny)
                end if
            end do
        end do
        !$omp end do
        deallocate (a, b, c, d)
        !$omp end parallel
    end subroutine

    subroutine transform_along_z(nx, ny, nz, wz, re, im)
        integer, intent(in) :: nx, ny, nz
        type(roots), intent(in) :: wz
        real(real64), intent(inout) :: re(nx + pad, ny, nz), im(nx + pad, ny, nz)
        real(real64), allocatable :: a(:, :), b(:, :), c(:, :), d(:, :)
        logical :: other
        integer :: x, y
        !$omp parallel private(a, b, c, d, other, x)
        allocate (a(lanes, longest), b(lanes, longest), c(lanes, longest), d(lanes, longest))
        !$omp do schedule(static)
        do y = 1, ny
            do x = 1, nx, lanes
                a(:, 1:nz) = re(x:x + lanes - 1, y, :)
                b(:, 1:nz) = im(x:x + lanes - 1, y, :)
                call transform(wz, a, b, c, d, other)
                if (other) then
                    re(x:x + lanes - 1, y, :) = c(:, 1:nz)
                    im(x:x + lanes - 1, y, :) = d(:, 1:nz)
                else
                    re(x:x + lanes - 1, y, :) = a(:, 1:nz)
                    im(x:x + lanes - 1, y, :) = b(:, 1:nz)
                end if
            end do
        end do
        !$omp end do
        deallocate (a, b, c, d)
        !$omp end parallel
    end subroutine

end module

program ft
    use, intrinsic :: iso_fortran_env, only: real64
    use kernel_options, only: options, options_read, options_row
    use kernel_report
    use ft_transform, only: roots, make_roots
    use ft_field
    implicit none

    integer, parameter :: nxs(4) = [64, 128, 256, 512], nys(4) = [64, 128, 256, 256]
    integer, parameter :: nzs(4) = [64, 32, 128, 256], iterations(4) = [6, 6, 6, 20]
    real(real64), parameter :: published(2, 38) = reshape([real(real64) :: &
        5.546087004964e+02_real64, 4.845363331978e+02_real64, & ! S
        5.546385409189e+02_real64, 4.865304269511e+02_real64, &
        5.546148406171e+02_real64, 4.883910722336e+02_real64, &
        5.545423607415e+02_real64, 4.901273169046e+02_real64, &
        5.544255039624e+02_real64, 4.917475857993e+02_real64, &
        5.542683411902e+02_real64, 4.932597244941e+02_real64, &
        5.673612178944e+02_real64, 5.293246849175e+02_real64, & ! W
        5.631436885271e+02_real64, 5.282149986629e+02_real64, &
        5.594024089970e+02_real64, 5.270996558037e+02_real64, &
        5.560698047020e+02_real64, 5.260027904925e+02_real64, &
        5.530898991250e+02_real64, 5.249400845633e+02_real64, &
        5.504159734538e+02_real64, 5.239212247086e+02_real64, &
        5.046735008193e+02_real64, 5.114047905510e+02_real64, & ! A
        5.059412319734e+02_real64, 5.098809666433e+02_real64, &
        5.069376896287e+02_real64, 5.098144042213e+02_real64, &
        5.077892868474e+02_real64, 5.101336130759e+02_real64, &
        5.085233095391e+02_real64, 5.104914655194e+02_real64, &
        5.091487099959e+02_real64, 5.107917842803e+02_real64, &
        5.177643571579e+02_real64, 5.077803458597e+02_real64, & ! B
        5.154521291263e+02_real64, 5.088249431599e+02_real64, &
        5.146409228649e+02_real64, 5.096208912659e+02_real64, &
        5.142378756213e+02_real64, 5.101023387619e+02_real64, &
        5.139626667737e+02_real64, 5.103976610617e+02_real64, &
        5.137423460082e+02_real64, 5.105948019802e+02_real64, &
        5.135547056878e+02_real64, 5.107404165783e+02_real64, &
        5.133910925466e+02_real64, 5.108576573661e+02_real64, &
        5.132470705390e+02_real64, 5.109577278523e+02_real64, &
        5.131197729984e+02_real64, 5.110460304483e+02_real64, &
        5.130070319283e+02_real64, 5.111252433800e+02_real64, &
        5.129070537032e+02_real64, 5.111968077718e+02_real64, &
        5.128182883502e+02_real64, 5.112616233064e+02_real64, &
        5.127393733383e+02_real64, 5.113203605551e+02_real64, &
        5.126691062020e+02_real64, 5.113735928093e+02_real64, &
        5.126064276004e+02_real64, 5.114218460548e+02_real64, &
        5.125504076570e+02_real64, 5.114656139760e+02_real64, &
        5.125002331720e+02_real64, 5.115053595966e+02_real64, &
        5.124551951846e+02_real64, 5.115415130407e+02_real64, &
        5.124146770029e+02_real64, 5.115744692211e+02_real64 &
        ], [2, 38])
    integer, parameter :: first(4) = [0, 6, 12, 18]
    type(options) :: chosen
    type(report) :: run
    type(roots) :: wx, wy, wz
    real(real64), allocatable :: re(:, :, :), im(:, :, :), result_re(:, :, :), result_im(:, :, :)
    real(real64) :: sums(2, 20), size, operations
    character(24) :: name
    integer :: row, nx, ny, nz, t

    chosen = options_read()
    row = options_row(chosen)
    nx = nxs(row)
    ny = nys(row)
    nz = nzs(row)
    allocate (re(nx + pad, ny, nz), im(nx + pad, ny, nz))
    allocate (result_re(nx + pad, ny, nz), result_im(nx + pad, ny, nz))
    size = real(nx, real64)*ny*nz
    operations = size*(14.8157_real64 + 7.19641_real64*log(size) &
                       + (5.23518_real64 + 7.21113_real64*log(size))*iterations(row))
    ! First touch, plane by plane as the loops run later.
    call start_field(nx, ny, nz, result_re, result_im)
    run = report_begin('ft', chosen, iterations(row), operations)
    do while (report_again(run))
        call report_start(run)
        call start_field(nx, ny, nz, re, im)
        wx = make_roots(nx)
        wy = make_roots(ny)
        wz = make_roots(nz)
        call transform_planes(nx, ny, nz, wx, wy, re, im)
        call transform_along_z(nx, ny, nz, wz, re, im)
        do t = 1, iterations(row)
            call evolve(nx, ny, nz, t, re, im, result_re, result_im)
            ! Exchanged parts: the inverse transform.
            call transform_along_z(nx, ny, nz, wz, result_im, result_re)
            call transform_planes(nx, ny, nz, wx, wy, result_im, result_re)
            call checksum(nx, ny, nz, result_re, result_im, sums(:, t))
        end do
        call report_stop(run)
        do t = 1, iterations(row)
            write (name, '(a, i0, a)') 'checksum ', t, ' re'
            call check_close(run, name, sums(1, t), published(1, first(row) + t), 1e-12_real64)
            write (name, '(a, i0, a)') 'checksum ', t, ' im'
            call check_close(run, name, sums(2, t), published(2, first(row) + t), 1e-12_real64)
        end do
    end do
    call report_end(run)

end program
