//! What the exit codes and the environment mean, as the help says it.

/// What stands below the help of each command.
pub(super) const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    something failed that has no code of its own
  2    the command line is wrong (also: unknown policy, processors not to be had, too long a text)
  3    no manager answers
  4    a manager runs on that socket already
  5    the socket or its directory cannot be used (owner, mode, permission), or was removed under a manager
  6    what answers at the socket is no manager of this version, does not answer, or refuses
  7    submit: somebody cancelled it
  126  run: the program cannot be executed
  127  run: the program was not found
  otherwise `run` ends as its program does: it becomes the program.

Environment:
  NANOS_CPUMGR    the manager's socket, or `off`
  NANOS_SHIM_DIR  the directory of the drop-in OpenMP library
  CPUMGR_LOG      what the daemon logs (error, warn, info, debug)
  CPUMGR_CONFIG   the daemon's configuration file, in place of the usual ones, or `none`
  CPUMGR_QUANTUM and so on: a key of the configuration, for the daemon";
