//! One client: what it says goes to the scheduler, what the scheduler answers goes to it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use arena::message::{
    self, FromManager, MAX_MESSAGE, MessageError, Refused, RefusedCode, ToManager,
};
use nix::errno::Errno;
use platform::clock::monotonic_ns;
use platform::fdpass::{self, Bare};
use platform::process;
use platform::{SysError, SysResult};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, mpsc};
use tokio::time::{sleep, timeout};

use super::costs::{self, Account};
use super::door::Others;
use super::{Answer, Call, Line, wait_for};
use crate::bucket::Bucket;

/// Messages that a client may send at once, and how fast they come back. A registration is one, a
/// report is one.
const MESSAGES: u32 = 16;
const MESSAGE_NS: u64 = 50_000_000;
/// Characters of what the reader of messages says, which quotes what it does not know: escaped each
/// takes at most 12 of the bytes of an answer.
const MAX_QUOTED: usize = 500;
/// How long a client's queue may stay full.
const UNREAD: Duration = Duration::from_secs(1);

/// A client's end of the API.
#[derive(Debug)]
pub(super) struct Client {
    serial: u64,
    socket: AsyncFd<OwnedFd>,
    mailbox: mpsc::Receiver<Answer>,
    line: Line,
    others: Others,
    /// Another connection needs the room.
    leave: Rc<Notify>,
    /// The answer to its first message, whatever that is. (An answer that is sent before the
    /// message would be lost: closing a socket with an unread message throws away what was sent,
    /// too.)
    refusal: Option<String>,
    bucket: Bucket,
    /// What its user costs.
    account: Account,
}

/// Why a packet is not heard.
#[derive(Debug, thiserror::Error)]
enum Unheard {
    #[error(transparent)]
    Message(MessageError),
    /// None belongs in any message of a client. Before Linux 6.16 they can be sent
    /// (`fdpass::refuse_descriptors`).
    #[error("a message to the manager carries no descriptors")]
    Descriptors,
}

impl Unheard {
    /// Of a packet of `length` bytes. Without a bound the refusal of a long one would not fit its
    /// own packet, and the client would be let go without a word.
    fn of(error: MessageError, length: usize) -> Self {
        Self::Message(match error {
            MessageError::Malformed { what, begins } if what.chars().nth(MAX_QUOTED).is_some() => {
                let quoted: String = what.chars().take(MAX_QUOTED).collect();
                let what = format!(
                    "{quoted}...; it has {length} bytes, and a message at most {MAX_MESSAGE}"
                );
                MessageError::Malformed { what, begins }
            }
            other => other,
        })
    }

    fn code(&self) -> RefusedCode {
        match self {
            Self::Message(MessageError::Version { .. }) => RefusedCode::Version,
            _ => RefusedCode::Malformed,
        }
    }
}

/// Why the conversation is over.
enum Over {
    /// It hung up, or cannot be served.
    Gone,
    /// It is told so and let go.
    Refused(RefusedCode, String),
}

impl Client {
    pub(super) fn new(
        serial: u64,
        socket: OwnedFd,
        mailbox: mpsc::Receiver<Answer>,
        line: Line,
        (others, leave): (&Others, Rc<Notify>),
        account: Account,
        refusal: Option<String>,
    ) -> SysResult<Self> {
        let bucket = Bucket::new(MESSAGES, MESSAGE_NS, monotonic_ns());
        let socket = wait_for(socket).map_err(|error| {
            others.leave(serial);
            SysError::new("epoll_ctl", error.raw_os_error().unwrap_or(Errno::ENOMEM as i32))
        })?;
        Ok(Self {
            serial,
            socket,
            mailbox,
            line,
            others: others.clone(),
            leave,
            refusal,
            bucket,
            account,
        })
    }

    /// The whole conversation.
    pub(super) async fn serve(mut self) {
        if let Over::Refused(code, reason) = self.converse().await {
            tracing::warn!(serial = self.serial, ?code, reason, "a client is refused");
            // Whether it hears that does not matter.
            let _heard: io::Result<()> =
                self.say(&FromManager::Refused(Refused { code, reason })).await;
        }
        self.others.leave(self.serial);
        self.line.call(self.serial, Call::Closed).await;
    }

    async fn converse(&mut self) -> Over {
        let (mut unanswered, mut may_speak) = (false, false);
        loop {
            may_speak = may_speak || self.bucket.take(monotonic_ns());
            let muted = !may_speak && !unanswered;
            let until_heard = self.bucket.time_of(1, 0);
            tokio::select! {
                biased;
                answer = self.mailbox.recv() => {
                    // The scheduler has let it go.
                    let Some(answer) = answer else { return Over::Gone };
                    unanswered = false;
                    if let Err(error) = self.answer(answer).await {
                        tracing::debug!(serial = self.serial, %error, "a client does not hear its answer");
                        return Over::Gone;
                    }
                }
                () = self.leave.notified() => return Over::Gone,
                () = sleep(Duration::from_nanos(until_heard)), if muted => {}
                said = receive(&self.socket, &self.account), if may_speak && !unanswered => match said {
                    Ok(Some(Ok(message))) => {
                        if let Some(reason) = self.refusal.take() {
                            return Over::Refused(RefusedCode::NotYours, reason);
                        }
                        (unanswered, may_speak) = (true, false);
                        if !self.line.call(self.serial, Call::Said(message)).await {
                            return Over::Gone;
                        }
                    }
                    Ok(Some(Err(error))) => {
                        return Over::Refused(error.code(), error.to_string());
                    }
                    Ok(None) => return Over::Gone,
                    Err(error) if error.raw_os_error() == Some(Errno::EMSGSIZE as i32) => {
                        let reason = format!("a message has at most {MAX_MESSAGE} bytes");
                        return Over::Refused(RefusedCode::Malformed, reason);
                    }
                    Err(error) => {
                        tracing::debug!(serial = self.serial, %error, "a client cannot be heard");
                        return Over::Gone;
                    }
                },
            }
        }
    }

    async fn answer(&mut self, answer: Answer) -> io::Result<()> {
        match answer {
            Answer::Messages(messages) => {
                self.account.charge(messages.len() as u64);
                for message in messages {
                    let becomes = matches!(
                        message,
                        FromManager::Announced { .. } | FromManager::Queued { .. }
                    );
                    self.say(&message).await?;
                    if becomes {
                        self.others.leave(self.serial);
                    }
                }
            }
            Answer::Areas(areas) => {
                let registered = FromManager::Registered(message::Registered { slot: areas.slot });
                let packet = message::encode(&registered).map_err(io::Error::other)?;
                send(&self.socket, &packet, &areas.in_order()).await?;
                self.others.leave(self.serial);
            }
            Answer::Domain { line, area } => {
                let packet =
                    message::encode(&FromManager::Joined { line }).map_err(io::Error::other)?;
                send(&self.socket, &packet, &[area.as_fd()]).await?;
            }
        }
        Ok(())
    }

    async fn say(&self, message: &FromManager) -> io::Result<()> {
        let packet = message::encode(message).map_err(|error| {
            // Names and lists are bounded so that a packet holds them (tests of `arena::message`).
            tracing::error!(%error, "an answer does not fit its packet");
            io::Error::other(error)
        })?;
        send(&self.socket, &packet, &[]).await
    }
}

fn as_io(error: SysError) -> io::Error {
    io::Error::from_raw_os_error(error.errno())
}

async fn send(
    socket: &AsyncFd<OwnedFd>,
    packet: &[u8],
    descriptors: &[std::os::fd::BorrowedFd<'_>],
) -> io::Result<()> {
    let sent = socket.async_io(Interest::WRITABLE, |socket| {
        fdpass::send(socket, packet, descriptors).map_err(as_io)
    });
    match timeout(UNREAD, sent).await {
        Ok(outcome) => outcome,
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "it does not read what it asks for")),
    }
}

/// The next message, when it is its user's turn; `None` is the end.
async fn receive(
    socket: &AsyncFd<OwnedFd>,
    account: &Account,
) -> io::Result<Option<Result<ToManager, Unheard>>> {
    loop {
        let mut ready = socket.readable().await?;
        let owed = !account.is_free();
        let _turn = account.turn().await;
        // No process waits for an answer to what it said before it hung up.
        if owed && process::is_hung_up(socket.get_ref()).map_err(as_io)? {
            return Ok(None);
        }
        let mut buffer = vec![0; MAX_MESSAGE];
        let received = ready.try_io(|socket| {
            fdpass::recv_without_descriptors(socket.get_ref(), &mut buffer).map_err(as_io)
        });
        // What is not there any more is not an end.
        let Ok(received) = received else { continue };
        let Bare { length, had_descriptors } = received?;
        let said = match &buffer[..length] {
            _ if had_descriptors => Some(Err(Unheard::Descriptors)),
            [] => None,
            packet => Some(
                message::decode::<ToManager>(packet)
                    .map_err(|error| Unheard::of(error, packet.len())),
            ),
        };
        account.charge(match &said {
            Some(Ok(message)) => costs::of_message(message),
            Some(Err(_)) => costs::NONSENSE,
            None => 0,
        });
        return Ok(said);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
    use platform::event::Doorbell;

    use super::super::costs::{Costs, OTHERS};
    use super::*;

    #[test]
    fn a_client_that_hung_up_while_its_user_owed_is_neither_heard_nor_charged() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            for owes in [false, true] {
                let costs = Costs::new(7, costs::clock);
                let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
                let (socket, other) =
                    socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags).unwrap();
                fdpass::send(&other, &message::encode(&ToManager::Status).unwrap(), &[]).unwrap();
                drop(other);
                let socket = wait_for(socket).unwrap();
                if owes {
                    // Paid in about a second: longer than from here to the first look.
                    costs.charge(9, OTHERS.burst + 500);
                }
                let heard = receive(&socket, &costs.of(9)).await.unwrap();
                assert_eq!(heard.is_some(), !owes);
                assert!(!owes || costs.is_free(9), "it was charged");
            }
        });
    }

    #[test]
    fn what_is_said_and_answered_is_charged() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            // A clock that stands still pays nothing back.
            let costs = Costs::new(7, || 1 << 40);
            let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
            let pair =
                || socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags).unwrap();
            let status = message::encode(&ToManager::Status).unwrap();
            for (user, packet) in [(9, &status[..]), (10, b"nonsense")] {
                let (socket, other) = pair();
                fdpass::send(&other, packet, &[]).unwrap();
                let socket = wait_for(socket).unwrap();
                // Nothing is left of the burst.
                costs.charge(user, OTHERS.burst);
                assert!(costs.is_free(user));
                assert!(receive(&socket, &costs.of(user)).await.unwrap().is_some());
                assert!(!costs.is_free(user), "user {user} says it for nothing");
            }

            let (socket, _other) = pair();
            let (sender, _calls) = mpsc::channel(1);
            let bell = Arc::new(Doorbell::new().unwrap());
            let (_answers, mailbox) = mpsc::channel(1);
            let mut client = Client::new(
                1,
                socket,
                mailbox,
                Line { calls: sender, bell },
                (&Others::default(), Rc::default()),
                costs.of(11),
                None,
            )
            .unwrap();
            costs.charge(11, OTHERS.burst);
            client.answer(Answer::Messages(vec![FromManager::Done])).await.unwrap();
            assert!(!costs.is_free(11), "it is answered for nothing");
        });
    }
}
