//! The classes, with the published norms.

#![expect(clippy::excessive_precision, reason = "the values as they are published")]

use super::grid::Norm;

/// A class.
pub(super) struct Class {
    /// Points in each direction.
    pub(super) n: usize,
    /// The time step.
    pub(super) dt: f64,
    /// Time steps.
    pub(super) steps: usize,
    /// Of the right-hand side after the last step.
    pub(super) residual: Norm,
    /// Of the difference from the exact solution after the last step.
    pub(super) error: Norm,
}

impl Class {
    /// Operations as the benchmark counts them.
    pub(super) fn operations(&self) -> f64 {
        let n = self.n as f64;
        self.steps as f64 * (3478.8 * n * n * n - 17655.7 * n * n + 28023.7 * n)
    }
}

pub(super) const CLASSES: [Class; 4] = [
    Class {
        n: 12,
        dt: 0.010,
        steps: 60,
        residual: [
            1.7034283709541311e-01,
            1.2975252070034097e-02,
            3.2527926989486055e-02,
            2.6436421275166801e-02,
            1.9211784131744430e-01,
        ],
        error: [
            4.9976913345811579e-04,
            4.5195666782961927e-05,
            7.3973765172921357e-05,
            7.3821238632439731e-05,
            8.9269630987491446e-04,
        ],
    },
    Class {
        n: 24,
        dt: 0.0008,
        steps: 200,
        residual: [
            0.1125590409344e+03,
            0.1180007595731e+02,
            0.2710329767846e+02,
            0.2469174937669e+02,
            0.2638427874317e+03,
        ],
        error: [
            0.4419655736008e+01,
            0.4638531260002e+00,
            0.1011551749967e+01,
            0.9235878729944e+00,
            0.1018045837718e+02,
        ],
    },
    Class {
        n: 64,
        dt: 0.0008,
        steps: 200,
        residual: [
            1.0806346714637264e+02,
            1.1319730901220813e+01,
            2.5974354511582465e+01,
            2.3665622544678910e+01,
            2.5278963211748344e+02,
        ],
        error: [
            4.2348416040525025e+00,
            4.4390282496995698e-01,
            9.6692480136345650e-01,
            8.8302063039765474e-01,
            9.7379901770829278e+00,
        ],
    },
    Class {
        n: 102,
        dt: 0.0003,
        steps: 200,
        residual: [
            1.4233597229287254e+03,
            9.9330522590150238e+01,
            3.5646025644535285e+02,
            3.2485447959084092e+02,
            3.2707541254659363e+03,
        ],
        error: [
            5.2969847140936856e+01,
            4.4632896115670668e+00,
            1.3122573342210174e+01,
            1.2006925323559144e+01,
            1.2459576151035986e+02,
        ],
    },
];
