//! A trace that begins and ends while programs run (`cpumgr trace start`, `stop`).
//!
//! # Not here
//! What is written into it: `publishing` and what else calls `trace`. Files: `trace`, by a thread
//! of its own; an error of a file that is opened for a trace is in the log and in the report.

use std::path::Path;

use super::Server;
use crate::trace::{Event, LEAST, Trace};

impl Server {
    /// Begins a trace: with the manager itself, and what each program has now.
    pub(super) fn start_trace(
        &mut self,
        path: &str,
        most: u64,
        folder: Option<(u64, u64)>,
        now: u64,
    ) -> Result<(), String> {
        if let Some(there) = self.trace.as_ref().filter(|it| it.is_written()).and_then(Trace::path)
        {
            return Err(format!(
                "a trace is written to {there} already; `cpumgr trace stop` ends it"
            ));
        }
        if !path.starts_with('/') || path.contains('\0') {
            return Err("the file of a trace has an absolute path".into());
        }
        if most < LEAST {
            return Err(format!("a trace has {LEAST} bytes or more"));
        }
        let trace = Trace::begin(Path::new(path), most, folder);
        self.trace = Some(trace.map_err(|error| format!("no thread for a trace: {error}"))?);
        tracing::info!(path, "a trace begins");
        self.trace_self(Event::Start);
        let Some(trace) = &mut self.trace else { return Ok(()) };
        for connection in self.connections.values_mut() {
            let (pid, serial) = (connection.peer.pid.0, connection.serial);
            let Some(program) = &mut connection.program else { continue };
            let Some(holding) = self.ledger.holding(policies::AppId(serial)) else { continue };
            let (cpus, shared) = (holding.cpus.clone(), holding.shared);
            trace.write(program.line(Event::Arrival, pid, now, Vec::new(), false));
            program.traced = Some((cpus.clone(), shared));
            trace.write(program.line(Event::Allocation, pid, now, cpus, shared));
        }
        Ok(())
    }

    /// Ends it. What waits for the disk is written by a thread.
    pub(super) fn stop_trace(&mut self) -> Result<(), String> {
        self.trace_self(Event::Stop);
        let Some(trace) = self.trace.take() else {
            return Err("no trace is written; `cpumgr trace start FILE` begins one".into());
        };
        let finish = move || {
            if let Err(error) = trace.finish() {
                tracing::error!(%error, "the trace is not complete");
            }
        };
        let finishing = std::thread::Builder::new().name("trace-end".into()).spawn(finish);
        tracing::info!("the trace ends");
        finishing.map(drop).map_err(|error| format!("its last lines may be missing: {error}"))
    }
}
