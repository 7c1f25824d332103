//! The server's interface: contexts, arguments, keys and replies. All calls of the server that commands
//! need are here, behind safe functions.

use std::ffi::{CStr, CString, c_int, c_long};
use std::marker::PhantomData;
use std::slice;

use redis_module::raw;

use crate::failure::Failure;
use crate::value::{self, Value};

/// A function of the server, for use in `unsafe` blocks. The server sets the pointers once, when it loads the
/// module. Those that this module uses are in Redis 7.0 and all versions of Valkey.
macro_rules! api {
    ($name:ident) => {
        redis_module::raw::$name.expect(concat!("the server has ", stringify!($name)))
    };
}
pub(crate) use api;

/// A command: its arguments without its name. It replies itself, unless it fails.
pub(crate) type Run = fn(&Context, &[Argument]) -> Result<(), Failure>;

/// Runs a command and replies with its error, if it has one.
///
/// # Safety
/// The arguments are those that the server passes to a command.
pub(crate) unsafe fn enter(
    run: Run,
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    let context = Context(ctx);
    // SAFETY: `argv` holds `argc` strings, which live until the command returns. `Argument` has the
    // layout of a pointer.
    let arguments = unsafe { slice::from_raw_parts(argv.cast::<Argument>(), argc as usize) };
    if let Err(failure) = run(&context, &arguments[1..]) {
        context.fail(&failure);
    }
    raw::Status::Ok as c_int
}

/// An argument of a command.
#[repr(transparent)]
pub(crate) struct Argument(*mut raw::RedisModuleString);

impl Argument {
    pub(crate) fn bytes(&self) -> &[u8] {
        let mut len = 0;
        // SAFETY: the string lives as long as `self`, and the server returns its bytes.
        unsafe {
            let start = api!(RedisModule_StringPtrLen)(self.0, &mut len);
            slice::from_raw_parts(start.cast(), len)
        }
    }

    /// Returns the argument as text; other bytes become U+FFFD.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }

    /// Returns whether the argument is this word, in any case.
    pub(crate) fn is(&self, word: &str) -> bool {
        self.bytes().eq_ignore_ascii_case(word.as_bytes())
    }
}

/// The context of a command.
pub(crate) struct Context(*mut raw::RedisModuleCtx);

impl Context {
    /// The context of redis-module, for what is not done often.
    pub(crate) fn general(&self) -> redis_module::Context {
        redis_module::Context::new(self.0)
    }

    /// Wraps a context of redis-module.
    pub(crate) fn of(general: &redis_module::Context) -> Self {
        Self(general.ctx)
    }

    pub(crate) fn reply_bool(&self, value: bool) {
        // SAFETY: the context is that of a running command.
        unsafe { api!(RedisModule_ReplyWithBool)(self.0, value.into()) };
    }

    pub(crate) fn reply_integer(&self, value: u64) {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        // SAFETY: the context is that of a running command.
        unsafe { api!(RedisModule_ReplyWithLongLong)(self.0, value) };
    }

    pub(crate) fn reply_signed(&self, value: i64) {
        // SAFETY: the context is that of a running command.
        unsafe { api!(RedisModule_ReplyWithLongLong)(self.0, value) };
    }

    pub(crate) fn reply_real(&self, value: f64) {
        // SAFETY: the context is that of a running command.
        unsafe { api!(RedisModule_ReplyWithDouble)(self.0, value) };
    }

    pub(crate) fn reply_null(&self) {
        // SAFETY: the context is that of a running command.
        unsafe { api!(RedisModule_ReplyWithNull)(self.0) };
    }

    pub(crate) fn reply_bytes(&self, bytes: &[u8]) {
        // SAFETY: the context is that of a running command, and the server copies the bytes.
        unsafe {
            api!(RedisModule_ReplyWithStringBuffer)(self.0, bytes.as_ptr().cast(), bytes.len())
        };
    }

    pub(crate) fn reply_ok(&self) {
        // SAFETY: the context is that of a running command.
        unsafe { api!(RedisModule_ReplyWithSimpleString)(self.0, c"OK".as_ptr()) };
    }

    pub(crate) fn reply_array(&self, len: usize) {
        // SAFETY: the context is that of a running command.
        unsafe { api!(RedisModule_ReplyWithArray)(self.0, len as c_long) };
    }

    /// Begins a map of `len` names and values: in RESP2 an array of both.
    pub(crate) fn reply_map(&self, len: usize) {
        // SAFETY: the context is that of a running command.
        unsafe { api!(RedisModule_ReplyWithMap)(self.0, len as c_long) };
    }

    pub(crate) fn fail(&self, failure: &Failure) {
        let text = CString::new(failure.to_string().replace('\0', " ")).unwrap_or_default();
        // SAFETY: the context is that of a running command, and the server copies the text.
        unsafe { api!(RedisModule_ReplyWithError)(self.0, text.as_ptr()) };
    }

    /// Sends the command as it came to replicas and the append-only file.
    pub(crate) fn replicate_verbatim(&self) {
        // SAFETY: the context is that of a running command.
        unsafe { api!(RedisModule_ReplicateVerbatim)(self.0) };
    }

    /// Sends another command to replicas and the append-only file.
    pub(crate) fn replicate(&self, command: &str, arguments: &[&[u8]]) {
        self.general().replicate(command, arguments);
    }

    fn has_flag(&self, flags: u32) -> bool {
        // SAFETY: the context is that of a running command.
        let all = unsafe { api!(RedisModule_GetContextFlags)(self.0) };
        all & flags as c_int != 0
    }

    /// Returns whether the command comes from the master or the append-only file, so that it must not
    /// be refused for a limit of this server.
    pub(crate) fn is_replayed(&self) -> bool {
        self.has_flag(raw::REDISMODULE_CTX_FLAGS_REPLICATED | raw::REDISMODULE_CTX_FLAGS_LOADING)
    }

    /// Returns whether the client must not be blocked: in scripts and transactions, and while commands
    /// are replayed.
    pub(crate) fn must_not_block(&self) -> bool {
        let flags = raw::REDISMODULE_CTX_FLAGS_LUA
            | raw::REDISMODULE_CTX_FLAGS_MULTI
            | raw::REDISMODULE_CTX_FLAGS_DENY_BLOCKING;
        self.has_flag(flags) || self.is_replayed()
    }

    /// If the server asks only which arguments are keys, tells it their positions, counted with the name
    /// of the command. Returns whether it did.
    pub(crate) fn tell_keys(&self, positions: &[c_int]) -> bool {
        // SAFETY: the context is that of a running command.
        if unsafe { api!(RedisModule_IsKeysPositionRequest)(self.0) } == 0 {
            return false;
        }
        for position in positions {
            // SAFETY: the server asks for positions.
            unsafe { api!(RedisModule_KeyAtPos)(self.0, *position) };
        }
        true
    }

    /// Opens a key to read it.
    pub(crate) fn key(&self, name: &Argument) -> Result<Key<'_>, Failure> {
        self.open(name.0, raw::REDISMODULE_READ)
    }

    /// Opens a key to change it.
    pub(crate) fn key_mut(&self, name: &Argument) -> Result<Key<'_>, Failure> {
        self.open(name.0, raw::REDISMODULE_READ | raw::REDISMODULE_WRITE)
    }

    /// Opens a key to change it.
    pub(crate) fn key_named(&self, name: &[u8]) -> Result<Key<'_>, Failure> {
        let name = self.general().create_string(name);
        self.open(name.inner, raw::REDISMODULE_READ | raw::REDISMODULE_WRITE)
    }

    /// Opens a key to read it.
    pub(crate) fn read_named(&self, name: &[u8]) -> Result<Key<'_>, Failure> {
        let name = self.general().create_string(name);
        self.open(name.inner, raw::REDISMODULE_READ)
    }

    /// Returns the time of the server in milliseconds.
    pub(crate) fn milliseconds(&self) -> u64 {
        // SAFETY: the function takes no arguments.
        unsafe { api!(RedisModule_Milliseconds)() }.try_into().unwrap_or(0)
    }

    /// Opens a key, which holds a filter or nothing.
    fn open(&self, name: *mut raw::RedisModuleString, mode: u32) -> Result<Key<'_>, Failure> {
        // SAFETY: context and name are valid; a missing key is null when it is opened to be read.
        let raw = unsafe { api!(RedisModule_OpenKey)(self.0, name, mode as c_int) };
        let key = Key { raw, context: PhantomData };
        // SAFETY: both functions take null and open keys.
        let (kind, module_type) =
            unsafe { (api!(RedisModule_KeyType)(raw), api!(RedisModule_ModuleTypeGetType)(raw)) };
        if kind == raw::REDISMODULE_KEYTYPE_EMPTY as c_int || module_type == value::module_type() {
            Ok(key)
        } else {
            Err(Failure::WrongType)
        }
    }

    pub(crate) fn log(&self, level: &CStr, text: &str) {
        let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
        // SAFETY: the context is valid; the format takes one string.
        unsafe {
            api!(RedisModule_Log)(self.0, level.as_ptr(), c"%s".as_ptr(), text.as_ptr());
        }
    }
}

/// An open key that holds a filter or nothing.
pub(crate) struct Key<'a> {
    raw: *mut raw::RedisModuleKey,
    context: PhantomData<&'a Context>,
}

impl Key<'_> {
    fn pointer(&self) -> *mut Value {
        // SAFETY: `open` checked that the key is empty or of our type; null for an empty key.
        unsafe { api!(RedisModule_ModuleTypeGetValue)(self.raw).cast() }
    }

    pub(crate) fn value(&self) -> Option<&Value> {
        // SAFETY: values of our type are boxes of `Value`. The server runs one command at a time and
        // frees no value of an open key; `self` borrows it.
        unsafe { self.pointer().as_ref() }
    }

    pub(crate) fn value_mut(&mut self) -> Option<&mut Value> {
        // SAFETY: as `value`; `&mut self` is the only access to the value through this key, and commands
        // open a key once.
        unsafe { self.pointer().as_mut() }
    }

    /// Stores a value in place of what the key holds.
    pub(crate) fn set(&mut self, value: Value) {
        let value = Box::into_raw(Box::new(value));
        // SAFETY: the key is open for writing, and the server frees the value by our callback.
        unsafe {
            api!(RedisModule_ModuleTypeSetValue)(self.raw, value::module_type(), value.cast())
        };
    }

    /// Removes the key.
    pub(crate) fn delete(&mut self) {
        // SAFETY: the key is open for writing.
        unsafe { api!(RedisModule_DeleteKey)(self.raw) };
    }
}

impl Drop for Key<'_> {
    fn drop(&mut self) {
        // SAFETY: the key was opened once and is closed once; the server takes null.
        unsafe { api!(RedisModule_CloseKey)(self.raw) };
    }
}
