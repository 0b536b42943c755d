//! A program whose manager has no time for it when it begins is taken in later, by itself.

use crate::process::{again, is_again, name_of, start, turn};
use crate::script::{Script, eventually, hear};
use nanothreads::Team;
use platform::affinity::affinity;
use platform::fdpass;
use std::io::{BufRead, BufReader};

/// The sum of the numbers of a team's threads is that of 0 to its size.
fn is_right(team: &Team) -> bool {
    let size = team.size();
    team.map(|member| member.id()).into_iter().sum::<usize>() == size * (size - 1) / 2
}

/// What this program does as the one that comes too early.
fn be_the_program() {
    let size = || Team::available().size();
    println!("began with {}", size());
    // Nothing is said to the manager here: the watcher's thread does that by itself.
    eventually("the grant counts", || is_right(&Team::available()) && size() == 1);
    println!("was granted 1");
}

#[test]
fn a_program_that_got_no_answer_in_time_is_managed_when_the_manager_has_time() {
    let test = name_of(&|| ());
    if is_again(test) {
        return be_the_program();
    }
    let whole = affinity(None).unwrap();
    let mut two = whole.iter();
    let (Some(first), Some(second)) = (two.next(), two.next()) else {
        platform::skip!("needs two processors, this process may use {whole}");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.sock");
    let listener = fdpass::listen(&path, 0o600).unwrap();
    let mut program = again(test);
    program.env("NANOS_CPUMGR", &path).env_remove("NANOS_ADAPT").env_remove("OMP_NUM_THREADS");
    let _turn = turn();
    let mut program = start(program);
    let lines = BufReader::new(program.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut lines =
        lines.filter(|line| line.contains("began with") || line.contains("was granted"));

    // It hears nothing, goes on, and comes again.
    let first_attempt = hear(&listener);
    assert!(lines.next().unwrap().contains(&format!("began with {}", whole.len())));
    drop(first_attempt);
    let mut script = Script::take_in(&listener, [first, second], whole, (false, 0), path);
    script.grant(&[second], false);
    assert!(lines.next().unwrap().contains("was granted 1"));
    let output = program.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.contains("without a manager until it answers"),
        "{said}"
    );
}
