//! Long work in a thread, while the client waits and the server goes on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use redis_module::{BlockedClient, RedisError, RedisValue, ThreadSafeContext};

use crate::failure::Failure;
use crate::server::Context;

/// Work on fewer bytes than this is done at once: it takes about 1 ms.
pub(crate) const SMALL_BYTES: u64 = 1 << 20;

static RUNNING: AtomicU64 = AtomicU64::new(0);

/// Returns the number of jobs that run in threads now.
pub(crate) fn running() -> u64 {
    RUNNING.load(Relaxed)
}

/// Access to the server from a job.
pub(crate) enum Server<'a> {
    /// The job runs inside a command.
    Command(&'a Context),
    /// The job runs in a thread.
    Thread(&'a ThreadSafeContext<BlockedClient>),
}

impl Server<'_> {
    /// Calls `step` while the server waits.
    pub(crate) fn locked<T>(&self, step: impl FnOnce(&Context) -> T) -> T {
        match self {
            Self::Command(context) => step(context),
            Self::Thread(thread) => step(&Context::of(&thread.lock())),
        }
    }
}

/// What a job replies.
pub(crate) enum Reply {
    Integer(u64),
    Null,
    Ok,
}

impl Reply {
    pub(crate) fn send(self, context: &Context) {
        match self {
            Self::Integer(number) => context.reply_integer(number),
            Self::Null => context.reply_null(),
            Self::Ok => context.reply_ok(),
        }
    }
}

impl From<Reply> for RedisValue {
    fn from(reply: Reply) -> Self {
        match reply {
            Reply::Integer(number) => Self::Integer(i64::try_from(number).unwrap_or(i64::MAX)),
            Reply::Null => Self::Null,
            Reply::Ok => Self::SimpleStringStatic("OK"),
        }
    }
}

/// Runs a job in a thread. In a script, a transaction or a replayed command, or if `at_once`, it runs inside
/// the command.
pub(crate) fn start(
    context: &Context,
    at_once: bool,
    job: impl FnOnce(&Server<'_>) -> Result<Reply, Failure> + Send + 'static,
) -> Result<(), Failure> {
    if at_once || context.must_not_block() {
        job(&Server::Command(context))?.send(context);
        return Ok(());
    }
    let client = context.general().block_client();
    std::thread::spawn(move || {
        RUNNING.fetch_add(1, Relaxed);
        let thread = ThreadSafeContext::with_blocked_client(client);
        let done = catch_unwind(AssertUnwindSafe(|| job(&Server::Thread(&thread))));
        RUNNING.fetch_sub(1, Relaxed);
        thread.reply(match done {
            Ok(Ok(reply)) => Ok(reply.into()),
            Ok(Err(failure)) => Err(RedisError::String(failure.to_string())),
            Err(_) => Err(RedisError::Str("ERR the module failed; its log has the reason")),
        });
    });
    Ok(())
}
