//! The domain of the client's manager, and passing a processor on within it.

use std::time::Duration;

use platform::affinity::CpuId;
use platform::clock::monotonic_ns;

use super::{Client, ConnectError};
use crate::domain::Domain;

impl Client {
    /// Joins the domain of this program's manager: [`Domain::join`].
    ///
    /// # Errors
    /// As there.
    pub fn join_domain(&self, timeout: Duration) -> Result<Domain, ConnectError> {
        Domain::join(&self.tie.path, timeout)
    }

    /// The same after another manager took the program in, which [`Client::on_return`] tells:
    /// [`Domain::join_again`].
    ///
    /// # Errors
    /// As there.
    pub fn join_domain_again(
        &self,
        domain: &Domain,
        timeout: Duration,
    ) -> Result<(), ConnectError> {
        domain.join_again(&self.tie.path, timeout)
    }

    /// Passes `cpu` of this program's grant to another program of the domain that wants one (M6);
    /// the virtual processor that used it parks, and the next grants have one processor less until
    /// [`Client::resume`]. False: no such program wants one, or the manager is not alive;
    /// [`Client::release`] is for the others then.
    pub fn pass(&self, domain: &Domain, cpu: CpuId) -> bool {
        let passed = self.is_alive() && domain.pass(cpu);
        if passed {
            // Where both notes reach the manager, the second one finds that the processor is not
            // ours any more.
            if self.up.released.add(cpu) {
                self.up.request.note_release(monotonic_ns());
            }
            // Also where it stands among those given back already, from a time before it came back.
            // The receiver does not wait for the ring: it ends the time for which the books are not
            // true.
            self.tie.ring();
        }
        passed
    }
}
