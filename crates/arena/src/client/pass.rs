//! Passing a processor on within a domain.

use platform::affinity::CpuId;
use platform::clock::monotonic_ns;

use super::Client;
use crate::domain::Domain;

impl Client {
    /// Passes `cpu` of this program's grant to another program of the domain that wants one (M6); the virtual processor
    /// that used it parks, and the next grants have one processor less until [`Client::resume`]. False: nobody wants one,
    /// or the manager is not alive; [`Client::release`] is for the others then.
    pub fn pass(&self, domain: &Domain, cpu: CpuId) -> bool {
        let passed = self.is_alive() && domain.pass(cpu);
        if passed {
            // Without a ring: the manager settles it with the next thing that it does. Where both notes reach it, the
            // second one finds that the processor is not ours any more.
            self.up.released.add(cpu);
            self.up.request.note_release(monotonic_ns());
        }
        passed
    }
}
