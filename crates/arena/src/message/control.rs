//! What an administrator says.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What an administrator may change while programs run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Control {
    /// How often programs that share processors take turns.
    Quantum {
        /// Its length.
        quantum_ns: u64,
    },
    /// The time between asking for a processor and squeezing.
    Grace {
        /// Its length.
        grace_ns: u64,
    },
    /// How processors are shared out.
    Policy {
        /// Another policy; `None`: the one in force.
        name: Option<String>,
        /// Its parameters, as people write them.
        #[serde(default)]
        settings: BTreeMap<String, String>,
    },
    /// The share of a program relative to others.
    Weight {
        /// Its process; 0: the client's own.
        pid: i32,
        /// The weight, times 1000.
        thousandths: u32,
    },
    /// Whether a program's teams keep their size, whatever it is granted.
    Team {
        /// Its process; 0: the client's own.
        pid: i32,
        /// They do; otherwise they follow.
        fixed_team: bool,
    },
    /// The site's class that a program is in.
    Class {
        /// Its process; 0: the client's own.
        pid: i32,
        /// The class; `None`: as the site's rules say.
        class: Option<String>,
    },
    /// What a program was started for, for rules of classes.
    Label {
        /// Its process; 0: the client's own.
        pid: i32,
        /// A word of its user's.
        label: String,
    },
    /// How many processors a program is to have. What is `None` stays as it is.
    Bounds {
        /// Its process; 0: the client's own.
        pid: i32,
        /// Before other programs of its class and user have more than theirs.
        #[serde(default)]
        min: Option<u32>,
        /// At most; `u32::MAX`: as many as it can use.
        #[serde(default)]
        max: Option<u32>,
    },
    /// How many programs may run at once.
    Level {
        /// Their number; `None`: any.
        level: Option<u32>,
    },
    /// A process that does not speak the protocol shall be managed by the affinity of its threads.
    Attach {
        /// Its number.
        pid: i32,
    },
    /// It shall not any more.
    Detach {
        /// Its number.
        pid: i32,
    },
    /// Programs shall leave these processors, and get none of them.
    Drain {
        /// Which, as a kernel list.
        processors: String,
    },
    /// They may have these again.
    Undrain {
        /// Which, as a kernel list.
        processors: String,
    },
    /// It shall write a trace from now on.
    TraceStart {
        /// Into this file, an absolute path.
        path: String,
        /// The most that each of its two files takes.
        most: u64,
        /// The directory of that path as the asker sees it, as device and inode: a service, or a
        /// manager in a container, may see another one there, into which it writes nothing.
        #[serde(default)]
        folder: Option<(u64, u64)>,
    },
    /// It shall write none any more.
    TraceStop,
    /// The manager shall end.
    Stop {
        /// Only if no client but the asker needs it.
        #[serde(default)]
        if_idle: bool,
    },
    /// The manager shall begin anew, with what is in force now; programs go on, and are taken in
    /// again.
    Restart,
    /// The manager shall read its configuration anew.
    Reload,
    /// One that waits shall not be started.
    Cancel {
        /// Its number.
        id: u64,
    },
}
