//! Mandelbrot's rows: how soon each point escapes.

const MOST: u16 = 300;

/// Row `y` of an image of `height` rows: rows are of very different cost.
pub(crate) fn row(y: usize, height: usize, row: &mut [u16]) {
    let width = row.len() as f64;
    let ci = y as f64 / height as f64 * 1.5 - 0.2;
    for (x, pixel) in row.iter_mut().enumerate() {
        let cr = x as f64 / width * 3.0 - 2.2;
        let (mut re, mut im, mut steps) = (0.0_f64, 0.0_f64, 0);
        while steps < MOST && re * re + im * im < 4.0 {
            (re, im) = (re * re - im * im + cr, 2.0 * re * im + ci);
            steps += 1;
        }
        *pixel = steps;
    }
}
