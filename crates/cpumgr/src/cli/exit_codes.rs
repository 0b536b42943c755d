//! What the exit codes and the environment mean, as the help says it.

/// What stands below the help of each command.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    something failed that has no code of its own; doctor: something is wrong
  2    the command line is wrong (also: unknown policy, processors that are not to be had, a text \
  that is too long), or the configuration is
  3    no manager answers, or none can be started at the usual places
  4    a manager runs on that socket already
  5    the socket or its directory cannot be used (owner, mode, permission), or was removed under \
  a manager
  6    what answers at the socket is no manager of this version, does not answer, or refuses
  7    submit: it was cancelled, what it was to start after failed, or it could not begin in time
  126  run, submit, jobserver: the program cannot be executed
  127  run, submit, jobserver, doctor: the program was not found
  otherwise `run` and `submit` end as their program does: they become it.
  `jobserver`, and `submit` with --wait or --time-limit, stay beside it and end with its code, or \
  with 128 and the number of its signal; `submit --array` ends with 1 where one of its programs \
  did not end with 0.

Environment:
  NANOS_CPUMGR    the manager's socket, or `off`
  NANOS_SHIM_DIR  the directory of the drop-in OpenMP library
  CPUMGR_LOG      what the daemon logs (error, warn, info, debug)
  CPUMGR_CONFIG   the daemon's configuration file, in place of the usual ones, or `none`
  NO_COLOR        no colours on a terminal
  CPUMGR_QUANTUM and so on: a key of the configuration, for the daemon";
