//! Bodies that attract each other.

const STEP: f64 = 1e-3;

#[derive(Clone, Copy)]
pub(crate) struct Body {
    pub at: [f64; 3],
    speed: [f64; 3],
    mass: f64,
}

/// So many bodies at rest.
pub(crate) fn input(count: usize) -> Vec<Body> {
    let place = |i: usize, k: usize| ((i * 3 + k) as f64 * 0.618_033_988_75).fract() * 10.0 - 5.0;
    (0..count)
        .map(|i| Body {
            at: [place(i, 0), place(i, 1), place(i, 2)],
            speed: [0.0; 3],
            mass: 1.0 + (i % 7) as f64,
        })
        .collect()
}

/// `body` among `all`, a step later.
pub(crate) fn moved(body: Body, all: &[Body]) -> Body {
    let mut pull = [0.0; 3];
    for other in all {
        let apart = [0, 1, 2].map(|k| other.at[k] - body.at[k]);
        let square = apart.iter().map(|d| d * d).sum::<f64>() + 1e-4;
        let force = other.mass / (square * square.sqrt());
        (0..3).for_each(|k| pull[k] += force * apart[k]);
    }
    let speed = [0, 1, 2].map(|k| body.speed[k] + STEP * pull[k]);
    Body { at: [0, 1, 2].map(|k| body.at[k] + STEP * speed[k]), speed, ..body }
}

/// A step of the bodies from `begin` on.
pub(crate) fn part(old: &[Body], begin: usize, new: &mut [Body]) {
    new.iter_mut().zip(&old[begin..]).for_each(|(new, &body)| *new = moved(body, old));
}
