//! The callbacks of the native type.
//!
//! An RDB value is a form (0 a filter, 1 the begin of one, 2 staged keys), for form 2 the number of
//! arguments and the arguments of `TAMIS.BUILD key BEGIN`, then the bytes in chunks, then an empty chunk.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use redis_module::raw;
use tamis::{ChunkReader, Keyed, Limits};

use super::{CHUNK_BYTES, Filter, Loading, Staged, Value};
use crate::arguments::Plan;
use crate::failure::Failure;
use crate::server::api;

/// The name of the type in RDB files.
const TYPE_NAME: &std::ffi::CStr = c"tamis-flt";
/// The version of the RDB values that this module writes, and reads.
const VERSION: c_int = 1;

const FILTER: u64 = 0;
const LOADING: u64 = 1;
const STAGED: u64 = 2;

static TYPE: AtomicPtr<raw::RedisModuleType> = AtomicPtr::new(ptr::null_mut());

/// Returns the native type.
pub(crate) fn module_type() -> *mut raw::RedisModuleType {
    TYPE.load(Relaxed)
}

/// Registers the type. Returns whether the server accepted it.
pub(crate) fn register(ctx: *mut raw::RedisModuleCtx) -> bool {
    let mut methods = raw::RedisModuleTypeMethods {
        version: u64::from(raw::REDISMODULE_TYPE_METHOD_VERSION),
        rdb_load: Some(rdb_load),
        rdb_save: Some(rdb_save),
        aof_rewrite: Some(aof_rewrite),
        mem_usage: Some(mem_usage),
        free: Some(free),
        digest: Some(digest),
        aux_load: None,
        aux_save: None,
        aux_save_triggers: 0,
        free_effort: Some(free_effort),
        unlink: None,
        copy: Some(copy),
        defrag: Some(defrag),
        mem_usage2: None,
        free_effort2: None,
        unlink2: None,
        copy2: None,
        aux_save2: None,
    };
    // SAFETY: the server copies the methods.
    let made =
        unsafe { api!(RedisModule_CreateDataType)(ctx, TYPE_NAME.as_ptr(), VERSION, &mut methods) };
    TYPE.store(made, Relaxed);
    !made.is_null()
}

/// Returns a value from the server's pointer to it.
///
/// # Safety
/// The pointer is to a value of our type, which nothing changes meanwhile.
unsafe fn value<'a>(pointer: *const c_void) -> &'a Value {
    // SAFETY: values of our type are boxes of `Value`.
    unsafe { &*pointer.cast::<Value>() }
}

fn save_number(rdb: *mut raw::RedisModuleIO, number: u64) {
    // SAFETY: the server passed `rdb` to `rdb_save`.
    unsafe { api!(RedisModule_SaveUnsigned)(rdb, number) };
}

fn save_bytes(rdb: *mut raw::RedisModuleIO, bytes: &[u8]) {
    // SAFETY: the server passed `rdb` to `rdb_save`, and writes or copies the bytes.
    unsafe { api!(RedisModule_SaveStringBuffer)(rdb, bytes.as_ptr().cast(), bytes.len()) };
}

unsafe extern "C" fn rdb_save(rdb: *mut raw::RedisModuleIO, pointer: *mut c_void) {
    // SAFETY: the server passes values of our type.
    match unsafe { value(pointer) } {
        Value::Filter(held) => {
            save_number(rdb, FILTER);
            each_chunk(held.filter(), |chunk| save_bytes(rdb, chunk));
        }
        Value::Loading(loading) => {
            save_number(rdb, LOADING);
            loading.chunks().for_each(|chunk| save_bytes(rdb, chunk));
        }
        Value::Staged(staged) => {
            save_number(rdb, STAGED);
            let arguments = staged.plan.arguments();
            save_number(rdb, arguments.len() as u64);
            arguments.iter().for_each(|argument| save_bytes(rdb, argument));
            staged.each_chunk(CHUNK_BYTES, |chunk| save_bytes(rdb, chunk));
        }
    }
    save_bytes(rdb, &[]);
}

/// Calls `each` with a filter's bytes, in chunks that are borrowed from its tables where they are large.
fn each_chunk(filter: &Filter, mut each: impl FnMut(&[u8])) {
    let done: Result<(), std::convert::Infallible> = filter.write_chunks(CHUNK_BYTES, |chunk| {
        each(&chunk);
        Ok(())
    });
    let Ok(()) = done;
}

/// Reads what `rdb_save` wrote.
struct Input(*mut raw::RedisModuleIO);

impl Input {
    fn check(&self) -> Result<(), Failure> {
        // SAFETY: the server passed the stream to `rdb_load`.
        match unsafe { api!(RedisModule_IsIOError)(self.0) } {
            0 => Ok(()),
            _ => Err(Failure::text("the payload ends early")),
        }
    }

    /// Returns whether the bytes come from a file of this server or from its master, and not from a
    /// client.
    fn is_own(&self) -> bool {
        // SAFETY: the server passed the stream to `rdb_load`.
        let flags = unsafe {
            api!(RedisModule_GetContextFlags)(api!(RedisModule_GetContextFromIO)(self.0))
        };
        flags & raw::REDISMODULE_CTX_FLAGS_LOADING as c_int != 0
    }

    fn number(&self) -> Result<u64, Failure> {
        // SAFETY: the server passed the stream to `rdb_load`.
        let number = unsafe { api!(RedisModule_LoadUnsigned)(self.0) };
        self.check()?;
        Ok(number)
    }

    /// Calls `each` with the next string.
    fn bytes<T>(&self, each: impl FnOnce(&[u8]) -> T) -> Result<T, Failure> {
        let mut len = 0;
        // SAFETY: the server passed the stream to `rdb_load`.
        let start = unsafe { api!(RedisModule_LoadStringBuffer)(self.0, &mut len) };
        self.check()?;
        if start.is_null() {
            return Err(Failure::text("the payload ends early"));
        }
        // SAFETY: the server allocated `len` bytes there, which are ours to free.
        let result = each(unsafe { std::slice::from_raw_parts(start.cast(), len) });
        // SAFETY: as above; `each` is done with them.
        unsafe { api!(RedisModule_Free)(start.cast()) };
        Ok(result)
    }

    /// Calls `each` with all chunks up to the empty one.
    fn chunks(&self, mut each: impl FnMut(&[u8]) -> Result<(), Failure>) -> Result<(), Failure> {
        while self.bytes(|chunk| {
            if chunk.is_empty() { Ok(false) } else { each(chunk).map(|()| true) }
        })?? {}
        Ok(())
    }
}

/// Reads a value. The caps of the module's arguments do not apply: a server with lower caps than before
/// must be able to start. A reader takes no more than twice the memory of the bytes that are there.
fn load(input: &Input, version: c_int) -> Result<Value, Failure> {
    if version != VERSION {
        return Err(format!("values of version {version} are unknown").into());
    }
    match input.number()? {
        FILTER => {
            let new = if input.is_own() { ChunkReader::preallocating } else { ChunkReader::new };
            let mut reader = new(&Limits::default());
            input.chunks(|chunk| Ok(reader.push(chunk)?))?;
            let filter: Filter = Keyed::verified(reader.finish()?)?;
            Ok(filter.into())
        }
        LOADING => {
            let mut loading = Loading::new();
            input.chunks(|chunk| loading.push(chunk, u64::MAX).map(drop))?;
            Ok(Value::Loading(loading))
        }
        STAGED => {
            // A plan has at most a few dozen arguments.
            let count = input.number()?.min(1 << 10);
            let arguments =
                (0..count).map(|_| input.bytes(<[u8]>::to_vec)).collect::<Result<Vec<_>, _>>()?;
            let words: Vec<&[u8]> = arguments.iter().map(|argument| &argument[..]).collect();
            let mut staged = Staged::new(Plan::parse(&words)?);
            input.chunks(|chunk| staged.push_bytes(chunk))?;
            Ok(Value::Staged(staged))
        }
        form => Err(format!("values of form {form} are unknown").into()),
    }
}

unsafe extern "C" fn rdb_load(rdb: *mut raw::RedisModuleIO, version: c_int) -> *mut c_void {
    match load(&Input(rdb), version) {
        Ok(value) => Box::into_raw(Box::new(value)).cast(),
        Err(failure) => {
            let text = CString::new(format!("a filter was refused: {failure}")).unwrap_or_default();
            // SAFETY: the server passed the stream, and copies the text.
            unsafe {
                api!(RedisModule_LogIOError)(
                    rdb,
                    c"warning".as_ptr(),
                    c"%s".as_ptr(),
                    text.as_ptr(),
                );
            }
            ptr::null_mut()
        }
    }
}

/// Writes the commands that make the value again.
unsafe extern "C" fn aof_rewrite(
    aof: *mut raw::RedisModuleIO,
    key: *mut raw::RedisModuleString,
    pointer: *mut c_void,
) {
    let mut offset = 0;
    let emit = |chunk: &[u8]| {
        // SAFETY: the server passed `aof` and `key`; the format states the types of the arguments.
        unsafe {
            api!(RedisModule_EmitAOF)(
                aof,
                c"TAMIS.LOAD".as_ptr(),
                c"slb".as_ptr(),
                key,
                offset,
                chunk.as_ptr().cast::<c_char>(),
                chunk.len(),
            );
        }
        offset += chunk.len() as i64;
    };
    // SAFETY: the server passes values of our type.
    match unsafe { value(pointer) } {
        Value::Filter(held) => each_chunk(held.filter(), emit),
        Value::Loading(loading) => loading.chunks().for_each(emit),
        Value::Staged(staged) => {
            emit_begin(aof, key, &staged.plan);
            staged.each_chunk(CHUNK_BYTES, |chunk| {
                // SAFETY: as in `emit`.
                unsafe {
                    api!(RedisModule_EmitAOF)(
                        aof,
                        c"TAMIS.BUILD".as_ptr(),
                        c"scb".as_ptr(),
                        key,
                        c"HASHES".as_ptr(),
                        chunk.as_ptr().cast::<c_char>(),
                        chunk.len(),
                    );
                }
            });
        }
    }
}

/// Writes the command that begins the build of `plan`.
fn emit_begin(aof: *mut raw::RedisModuleIO, key: *mut raw::RedisModuleString, plan: &Plan) {
    let none = ptr::null_mut();
    let arguments: Vec<_> = plan
        .arguments()
        .iter()
        // SAFETY: the server copies the bytes.
        .map(|argument| unsafe {
            api!(RedisModule_CreateString)(none, argument.as_ptr().cast(), argument.len())
        })
        .collect();
    // SAFETY: the server passed `aof` and `key`; the format states the types of the arguments.
    unsafe {
        api!(RedisModule_EmitAOF)(
            aof,
            c"TAMIS.BUILD".as_ptr(),
            c"scv".as_ptr(),
            key,
            c"BEGIN".as_ptr(),
            arguments.as_ptr(),
            arguments.len(),
        );
    }
    for argument in arguments {
        // SAFETY: the strings were created above and are freed once.
        unsafe { api!(RedisModule_FreeString)(none, argument) };
    }
}

unsafe extern "C" fn free(pointer: *mut c_void) {
    // SAFETY: values of our type are boxes of `Value`, and the server frees each once.
    drop(unsafe { Box::from_raw(pointer.cast::<Value>()) });
}

unsafe extern "C" fn mem_usage(pointer: *const c_void) -> usize {
    // SAFETY: the server passes values of our type.
    unsafe { value(pointer) }.memory() as usize
}

/// Adds the bytes of the value, which are the same on every server that holds the same value.
unsafe extern "C" fn digest(digest: *mut raw::RedisModuleDigest, pointer: *mut c_void) {
    let add = |chunk: &[u8]| {
        // SAFETY: the server passed `digest`, and reads the bytes at once.
        unsafe {
            api!(RedisModule_DigestAddStringBuffer)(digest, chunk.as_ptr().cast(), chunk.len());
        }
    };
    // SAFETY: the server passes values of our type.
    match unsafe { value(pointer) } {
        Value::Filter(held) => each_chunk(held.filter(), add),
        Value::Loading(loading) => loading.chunks().for_each(add),
        Value::Staged(staged) => staged.each_chunk(CHUNK_BYTES, add),
    }
    // SAFETY: the server passed `digest`.
    unsafe { api!(RedisModule_DigestEndSequence)(digest) };
}

/// Returns the work of freeing: the server frees in the background what takes more than 64 units.
unsafe extern "C" fn free_effort(_: *mut raw::RedisModuleString, pointer: *const c_void) -> usize {
    // SAFETY: the server passes values of our type.
    let memory = unsafe { value(pointer) }.memory();
    memory.div_ceil(1 << 14) as usize
}

/// Shares the tables: the first change of the original or the copy copies them.
unsafe extern "C" fn copy(
    _: *mut raw::RedisModuleString,
    _: *mut raw::RedisModuleString,
    pointer: *const c_void,
) -> *mut c_void {
    // SAFETY: the server passes values of our type.
    let copy = unsafe { value(pointer) }.clone();
    Box::into_raw(Box::new(copy)).cast()
}

/// Moves the value itself to a better place. Its tables are large, and stay.
unsafe extern "C" fn defrag(
    ctx: *mut raw::RedisModuleDefragCtx,
    _: *mut raw::RedisModuleString,
    pointer: *mut *mut c_void,
) -> c_int {
    const { assert!(align_of::<Value>() <= 16, "the server allocated the value itself") };
    // SAFETY: the value is an allocation of the server, and a Rust value may be moved by its bytes.
    unsafe {
        let moved = api!(RedisModule_DefragAlloc)(ctx, *pointer);
        if !moved.is_null() {
            *pointer = moved;
        }
    }
    0
}
