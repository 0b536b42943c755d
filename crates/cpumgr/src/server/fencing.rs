//! Squeezing programs whose grace is over, and fencing in those that do not obey.

use platform::affinity::CpuId;

use super::Server;
use super::due::is_over;
use super::program::Program;
use crate::surprises::Surprise;

impl Server {
    /// Steps 3 and 5 of `reclaim`.
    pub(super) fn squeeze(&mut self, now: u64) {
        // Without a grace, what is taken in a pass is squeezed out in the same one.
        if self.grace > 0 && !is_over(self.due.grace, now) {
            return;
        }
        self.stirred = true;
        let kernel = self.kernel.as_ref();
        for connection in self.connections.values_mut() {
            let (serial, pid) = (connection.serial, connection.peer.pid);
            let Some(program) = &mut connection.program else { continue };
            if program.reclaim.deadline().is_none_or(|time| time > now) {
                continue;
            }
            let (owner, before) = (connection.peer.uid, program.reclaim.squeezes());
            if !self.looks.is_free(owner, now) {
                program.reclaim.put_off(self.looks.free_at(owner, now));
                continue;
            }
            program.reclaim.squeeze(kernel, &mut program.areas, &program.told, now);
            self.looks.charge(owner, self.kernel.work(), now);
            let squeezes = (before, program.reclaim.squeezes());
            self.measuring.squeezed(squeezes, pid.0, &program.name);
            let Some(fences) = self.fences.as_ref().filter(|_| program.fence.is_none()) else {
                continue;
            };
            if program.reclaim.is_defied(kernel, now) {
                let Program { reclaim, name, told, .. } = program;
                let held = told.iter().copied().map(CpuId).collect();
                match fences.put(kernel, (serial, pid, reclaim.threads()), &held) {
                    Ok(fence) => {
                        self.surprises.is_over(Surprise::Fence, serial);
                        self.measuring.so_far.fenced += 1;
                        tracing::warn!(pid = pid.0, %name, "a program binds itself to what was \
                                                            taken from it: fenced in");
                        program.fence = Some(fence);
                    }
                    Err(error) if self.surprises.comes(Surprise::Fence, serial) => {
                        tracing::warn!(pid = pid.0, %name, %error, "a program cannot be fenced in")
                    }
                    Err(_) => {}
                }
            } else {
                // A grace after a squeeze, and once in a quantum as long as a thread is squeezed.
                let squeezed = program.reclaim.squeezes() > before;
                let pause =
                    if squeezed { self.grace } else { self.ledger.quantum().max(self.grace) };
                program.reclaim.look_again(now + pause, &program.told, &self.cpus);
            }
            self.looks.charge(owner, self.kernel.work(), now);
        }
    }
}
