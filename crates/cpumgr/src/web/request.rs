//! The head of a request, as far as it is heeded.

/// A request that can be answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// The head of the answer alone is wanted.
    pub(super) is_head: bool,
    /// Without what follows a question mark.
    pub(super) path: String,
    /// Which host it is meant for.
    pub(super) host: Option<String>,
}

/// Why one cannot.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RequestError {
    #[error("this is no request of HTTP/1.1")]
    Malformed,
    #[error("the head of the request is too long")]
    TooLong,
    #[error("only GET and HEAD: nothing can be changed here")]
    Method,
    #[error("there are /, /status.json and /metrics here")]
    NotFound,
    #[error("this address is reached as localhost or by its number")]
    Misdirected,
}

impl RequestError {
    pub(super) fn code(&self) -> (u16, &'static str) {
        match self {
            Self::Malformed => (400, "Bad Request"),
            Self::TooLong => (431, "Request Header Fields Too Large"),
            Self::Method => (405, "Method Not Allowed"),
            Self::NotFound => (404, "Not Found"),
            Self::Misdirected => (421, "Misdirected Request"),
        }
    }
}

impl Request {
    /// The head is whole: it has an empty line.
    pub(super) fn parse(head: &[u8]) -> Result<Self, RequestError> {
        let text = std::str::from_utf8(head).map_err(|_| RequestError::Malformed)?;
        let mut lines = text.split("\r\n");
        let first: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
        let [method, target, version] = first.as_slice() else {
            return Err(RequestError::Malformed);
        };
        if !version.starts_with("HTTP/1.") || !target.starts_with('/') {
            return Err(RequestError::Malformed);
        }
        let is_head = match *method {
            "GET" => false,
            "HEAD" => true,
            _ => return Err(RequestError::Method),
        };
        let mut hosts = lines
            .take_while(|line| !line.is_empty())
            .filter_map(|line| line.split_once(':'))
            .filter(|(key, _)| key.eq_ignore_ascii_case("host"))
            .map(|(_, value)| value.trim().to_owned());
        let host = hosts.next();
        if hosts.next().is_some() {
            return Err(RequestError::Malformed);
        }
        let path = target.split(['?', '#']).next().unwrap_or_default().to_owned();
        Ok(Self { is_head, path, host })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_a_method_a_path_and_a_host() {
        let parse = |text: &str| Request::parse(text.as_bytes());
        let request = parse("GET /metrics?x=1 HTTP/1.1\r\nhOST:  localhost:9 \r\n\r\n").unwrap();
        let expected =
            Request { is_head: false, path: "/metrics".into(), host: Some("localhost:9".into()) };
        assert_eq!(request, expected);
        assert!(parse("HEAD / HTTP/1.0\r\n\r\n").unwrap().is_head);
        for (text, error) in [
            ("POST / HTTP/1.1\r\n\r\n", RequestError::Method),
            ("get / HTTP/1.1\r\n\r\n", RequestError::Method),
            ("GET / HTTP/2\r\n\r\n", RequestError::Malformed),
            ("GET http://x/ HTTP/1.1\r\n\r\n", RequestError::Malformed),
            ("GET /\r\n\r\n", RequestError::Malformed),
            ("\r\n\r\n", RequestError::Malformed),
            ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", RequestError::Malformed),
        ] {
            assert_eq!(parse(text), Err(error), "{text:?}");
        }
        assert_eq!(Request::parse(b"GET /\xff HTTP/1.1\r\n\r\n"), Err(RequestError::Malformed));
    }
}
