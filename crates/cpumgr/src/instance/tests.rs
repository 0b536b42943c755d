//! What stands at the path, and which other processes may be there.

use super::*;

/// How long another test's child may have copies of this process's descriptors, its locks and
/// listeners among them: until it becomes its program.
const PATIENCE: Duration = Duration::from_secs(20);

/// What succeeds once such copies are gone.
fn soon<T>(mut attempt: impl FnMut() -> Result<T, InstanceError>) -> T {
    let begin = Instant::now();
    loop {
        match attempt() {
            Ok(done) => return done,
            Err(error) if begin.elapsed() >= PATIENCE => panic!("{error}"),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

#[test]
fn the_second_manager_is_told_about_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("m/app.sock");
    let first = Instance::claim(&socket).unwrap();
    let error = Instance::claim(&socket).unwrap_err();
    assert!(matches!(error, InstanceError::Running { .. }), "{error}");
    assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
    drop(first);
    drop(soon(|| Instance::claim(&socket)));
    assert!(!socket.exists());
}

#[test]
fn one_that_was_killed_this_moment_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("m/app.sock");
    let (is_held, held) = std::sync::mpsc::channel();
    let (is_asked, asked) = std::sync::mpsc::channel();
    let path = socket.clone();
    let ending = std::thread::spawn(move || {
        let first = Instance::claim(&path).unwrap();
        is_held.send(()).unwrap();
        asked.recv().unwrap();
        drop(first);
    });
    held.recv().unwrap();
    let lock = beside(&socket, ".lock");
    assert!(matches!(super::lock(&socket, &lock), Err(InstanceError::Running { .. })));
    is_asked.send(()).unwrap();
    // Its lock falls at some time from now on.
    drop(Instance::claim_within(&socket, false, PATIENCE).unwrap());
    ending.join().unwrap();
}

#[test]
fn a_dead_managers_socket_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("m/app.sock");
    let mut first = Instance::claim(&socket).unwrap();
    drop(first.listen().unwrap());
    assert!(socket.exists(), "as after SIGKILL: the file is there, no process listens");
    let _listener = soon(|| first.listen());
    fdpass::connect(&socket, Duration::from_secs(5)).unwrap();
}

#[test]
fn what_is_no_socket_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("m/app.sock");
    let mut instance = Instance::claim(&socket).unwrap();
    fs::write(&socket, "precious").unwrap();
    let error = instance.listen().unwrap_err().to_string();
    assert!(error.contains("no socket") && error.contains("app.sock"), "{error}");
    drop(instance);
    assert_eq!(fs::read_to_string(&socket).unwrap(), "precious");
}

#[test]
fn a_manager_whose_lock_file_was_removed_is_one_still() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("m/app.sock");
    let mut first = Instance::claim(&socket).unwrap();
    let listener = first.listen().unwrap();
    let made = file_at(&socket);
    fs::remove_file(beside(&socket, ".lock")).unwrap();
    let error = Instance::claim(&socket).unwrap_err();
    assert!(matches!(error, InstanceError::Running { .. }), "{error}");
    assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
    assert_eq!(file_at(&socket), made, "the socket file is the first one's");
    drop(listener);
    drop(soon(|| Instance::claim(&socket)));
}

#[test]
fn a_manager_that_listens_since_the_claim_keeps_the_socket() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("m/app.sock");
    let mut instance = Instance::claim(&socket).unwrap();
    let _other = fdpass::listen(&socket, 0o600).unwrap();
    let error = instance.listen().unwrap_err().to_string();
    assert!(error.contains("cannot listen on") && error.contains("app.sock"), "{error}");
    drop(instance);
    fdpass::connect(&socket, Duration::from_secs(5)).unwrap();
}

#[test]
fn a_lock_on_a_file_that_was_removed_or_replaced_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("app.sock.lock");
    let locked = Flock::lock(open_lock(&path).unwrap(), FlockArg::LockExclusiveNonblock).unwrap();
    assert!(stands_at(&path, &locked).unwrap());
    fs::remove_file(&path).unwrap();
    assert!(!stands_at(&path, &locked).unwrap());
    let _next = open_lock(&path).unwrap();
    assert!(!stands_at(&path, &locked).unwrap());
}

#[test]
fn a_file_that_only_happens_to_have_the_lock_s_name_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("m/Cargo");
    drop(Instance::claim(&socket).unwrap());
    let lock = dir.path().join("m/Cargo.lock");
    assert_eq!(
        fs::read_to_string(&lock).unwrap(),
        "",
        "an ended manager leaves an empty lock file"
    );
    fs::write(&lock, "version = 4\n").unwrap();
    let error = Instance::claim_within(&socket, false, PATIENCE).unwrap_err().to_string();
    assert!(error.contains("Cargo.lock") && error.contains("process number"), "{error}");
    assert_eq!(fs::read_to_string(&lock).unwrap(), "version = 4\n");
}

#[test]
fn the_own_socket_is_removed_at_the_end_and_a_file_put_in_its_place_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("m/app.sock");
    let mut instance = Instance::claim(&socket).unwrap();
    let _listener = instance.listen().unwrap();
    drop(instance);
    assert!(!socket.exists());
    let mut instance = soon(|| Instance::claim(&socket));
    let _listener = instance.listen().unwrap();
    fs::rename(&socket, dir.path().join("elsewhere")).unwrap();
    fs::write(&socket, "precious").unwrap();
    drop(instance);
    assert_eq!(fs::read_to_string(&socket).unwrap(), "precious");
}

#[test]
fn a_directory_that_others_may_write_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let open = dir.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    let error = Instance::claim(&open.join("app.sock")).unwrap_err().to_string();
    assert!(error.contains("others may write there") && error.contains("open"), "{error}");
}

#[test]
fn a_link_in_place_of_the_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(dir.path(), &link).unwrap();
    let error = Instance::claim(&link.join("app.sock")).unwrap_err().to_string();
    assert!(error.contains("symbolic link"), "{error}");
}

#[test]
fn another_users_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let theirs = dir.path().join("theirs");
    fs::create_dir(&theirs).unwrap();
    if std::os::unix::fs::chown(&theirs, Some(12345), None).is_err() {
        platform::skip!("giving a directory away needs privilege");
        return;
    }
    let error = Instance::claim(&theirs.join("app.sock")).unwrap_err().to_string();
    assert!(error.contains("belongs to user 12345"), "{error}");
}

#[test]
fn the_directory_is_made_for_this_user_only() {
    let dir = tempfile::tempdir().unwrap();
    let made = dir.path().join("made");
    let _instance = Instance::claim(&made.join("app.sock")).unwrap();
    assert_eq!(fs::metadata(&made).unwrap().mode() & 0o777, 0o700);
}

#[test]
fn no_directory_is_made_in_the_root_directory() {
    let dir = std::path::PathBuf::from(format!("/no-such-place-{}", std::process::id()));
    let error = prepare_directory(&dir.join("app.sock")).unwrap_err().to_string();
    let was_made = fs::remove_dir(&dir).is_ok();
    assert!(error.contains("none is made in the root directory") && !was_made, "{error}");
}
