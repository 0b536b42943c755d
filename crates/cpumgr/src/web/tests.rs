//! The listener as clients meet it that mean well, badly, or nothing.

use super::*;

fn web() -> (tempfile::TempDir, Web) {
    let dir = tempfile::tempdir().unwrap();
    let web = Web::listen("127.0.0.1:0".parse().unwrap(), &dir.path().join("s")).unwrap();
    (dir, web)
}

/// The answer. A request that took longer to come than it may has none, and is made again.
fn ask(web: &Web, request: &str) -> String {
    let begin = Instant::now();
    loop {
        let mut stream = TcpStream::connect(web.address()).unwrap();
        let mut answer = String::new();
        let heard = stream
            .write_all(request.as_bytes())
            .and_then(|()| stream.read_to_string(&mut answer))
            .is_ok();
        if heard && !answer.is_empty() {
            return answer;
        }
        assert!(begin.elapsed() < 10 * PATIENCE, "{request:?} is not answered");
    }
}

#[test]
fn the_page_is_one_file_that_asks_no_other_server() {
    let (_dir, web) = web();
    let answer = ask(&web, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with(PAGE), "{answer}");
    assert!(answer.contains("default-src 'none'"));
    let addresses: Vec<&str> = PAGE.split("http").skip(1).collect();
    assert_eq!(addresses.len(), 1, "an address besides the name space of SVG");
    assert!(addresses[0].starts_with("://www.w3.org/2000/svg\""));
    let head = ask(&web, "HEAD / HTTP/1.1\r\n\r\n");
    assert!(
        head.ends_with("\r\n\r\n") && head.contains(&format!("Content-Length: {}", PAGE.len()))
    );
}

#[test]
fn a_service_that_is_closed_against_listening_says_what_opens_it() {
    let of = |error: Errno| fault(&std::io::Error::from_raw_os_error(error as i32));
    assert!(of(Errno::EAFNOSUPPORT).contains("listen.conf"));
    assert!(!of(Errno::EADDRINUSE).contains("listen.conf"));
}

#[test]
fn other_methods_paths_and_names_are_refused_with_their_codes() {
    let (_dir, web) = web();
    for (request, begin, contains) in [
        ("POST / HTTP/1.1\r\n\r\n", "HTTP/1.1 405 ", "Allow: GET, HEAD"),
        ("DELETE /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 405 ", "nothing can be changed"),
        ("GET /x HTTP/1.1\r\n\r\n", "HTTP/1.1 404 ", "/status.json"),
        ("GET /../etc/passwd HTTP/1.1\r\n\r\n", "HTTP/1.1 404 ", ""),
        ("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", "HTTP/1.1 421 ", "localhost"),
        ("nonsense\r\n\r\n", "HTTP/1.1 400 ", ""),
    ] {
        let answer = ask(&web, request);
        assert!(answer.starts_with(begin) && answer.contains(contains), "{request:?}: {answer}");
    }
    let long = format!("GET / HTTP/1.1\r\nX: {}\r\n", "x".repeat(2 * HEAD));
    let mut stream = TcpStream::connect(web.address()).unwrap();
    let _reset = stream.write_all(long.as_bytes());
    let mut answer = Vec::new();
    // What was not read may cost the answer's end; its beginning says it.
    let _reset = stream.read_to_end(&mut answer);
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 431 "));
}

#[test]
fn without_a_manager_that_is_said_and_nothing_ends() {
    let (_dir, web) = web();
    for path in ["/metrics", "/status.json"] {
        let answer = ask(&web, &format!("GET {path} HTTP/1.1\r\nHost: [::1]:80\r\n\r\n"));
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert!(answer.contains("does not answer"), "{answer}");
    }
}

#[test]
fn those_that_say_nothing_are_let_go_and_others_are_served_meanwhile() {
    let (_dir, web) = web();
    let mut silent: Vec<TcpStream> =
        (0..2 * MOST).map(|_| TcpStream::connect(web.address()).unwrap()).collect();
    // Those beyond the bound are closed at once, the others when their time is over.
    let begin = Instant::now();
    for stream in &mut silent {
        stream.set_read_timeout(Some(10 * PATIENCE)).unwrap();
        assert_eq!(stream.read(&mut [0; 16]).unwrap_or(0), 0);
    }
    assert!(begin.elapsed() < 9 * PATIENCE);
    let served = loop {
        let mut stream = TcpStream::connect(web.address()).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        let _reset = stream.read_to_end(&mut answer);
        if !answer.is_empty() {
            break answer;
        }
        assert!(begin.elapsed() < 20 * PATIENCE, "no client is served any more");
    };
    assert!(served.starts_with(b"HTTP/1.1 200 "));
}

#[test]
fn a_host_is_local_by_its_number_or_as_localhost() {
    for host in ["localhost", "LOCALHOST:80", "127.0.0.1:9", "[::1]:80", "::1"] {
        assert_eq!(is_local(host), host != "::1", "{host}");
    }
    for host in ["localhost.evil", "evil", "", "127.0.0.1.evil:80"] {
        assert!(!is_local(host), "{host}");
    }
}
