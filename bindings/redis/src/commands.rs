//! The list of commands, and how they are registered: flags, keys, documentation, access categories.

use std::ffi::{CStr, CString, c_int};
use std::ptr;

use redis_module::raw;

use crate::server::api;
use crate::{bloom, build, cuckoo, tamis};

/// The function that the server calls.
type Entry = unsafe extern "C" fn(
    *mut raw::RedisModuleCtx,
    *mut *mut raw::RedisModuleString,
    c_int,
) -> c_int;

/// Makes the function that the server calls from a safe one.
macro_rules! entry {
    ($run:path) => {{
        unsafe extern "C" fn entry(
            ctx: *mut raw::RedisModuleCtx,
            argv: *mut *mut raw::RedisModuleString,
            argc: c_int,
        ) -> c_int {
            // SAFETY: the server passes the arguments of a command.
            unsafe { crate::server::enter($run, ctx, argv, argc) }
        }
        entry as Entry
    }};
}

/// Which arguments are keys.
#[derive(Clone, Copy, PartialEq)]
enum Keys {
    None,
    /// The first.
    One,
    /// All.
    All,
    /// The first, and the one after `FROM`.
    From,
}

struct Command {
    name: &'static CStr,
    entry: Entry,
    flags: &'static CStr,
    /// The number of words, with the name; negative if there may be more.
    arity: c_int,
    keys: Keys,
    /// The syntax after the name, and what the command does.
    summary: &'static CStr,
    complexity: &'static CStr,
}

const READ: &CStr = c"readonly fast";
const SCAN: &CStr = c"readonly";
const WRITE: &CStr = c"write deny-oom fast";
const REMOVE: &CStr = c"write fast";
const SLOW: &CStr = c"write deny-oom";

/// For commands whose keys the server cannot find by their positions.
const TELLS: &CStr = c"write deny-oom getkeys-api";

const ONE: &CStr = c"O(1)";
const EACH: &CStr = c"O(N) for N items";
const BYTES: &CStr = c"O(N) for N bytes";

macro_rules! commands {
    ($($name:literal $run:path, $flags:ident $arity:literal $keys:ident $complexity:ident $summary:literal;)*) => {
        [$( Command {
            name: $name,
            entry: entry!($run),
            flags: $flags,
            arity: $arity,
            keys: Keys::$keys,
            summary: $summary,
            complexity: $complexity,
        } ),*]
    };
}

const TAMIS: [Command; 20] = commands! {
    c"TAMIS.RESERVE" tamis::reserve, SLOW -5 One BYTES
        c"key kind capacity fpr [HASH name] [SEED hex] [INTEGERS] [WINDOW milliseconds] [SET name value]...: makes an empty filter";
    c"TAMIS.ADD" tamis::add, WRITE 3 One ONE c"key item: adds an item; replies whether it was new";
    c"TAMIS.MADD" tamis::madd, WRITE -3 One EACH c"key item [item ...]: adds items";
    c"TAMIS.ADDNX" tamis::addnx, WRITE -3 One EACH
        c"key item [item ...]: adds the items that the filter does not seem to hold";
    c"TAMIS.EXISTS" tamis::exists, READ 3 One ONE
        c"key item: replies whether the item may be in the filter; no is certain";
    c"TAMIS.MEXISTS" tamis::mexists, READ -3 One EACH
        c"key item [item ...]: replies for each item whether it may be in the filter";
    c"TAMIS.REM" tamis::rem, REMOVE -3 One EACH c"key item [item ...]: removes items that were added";
    c"TAMIS.COUNT" tamis::count, READ -3 One EACH
        c"key item [item ...]: replies how often each item was added, at least";
    c"TAMIS.INCRBY" tamis::incrby, SLOW 4 One EACH c"key item increment: adds an item several times";
    c"TAMIS.PUSH" tamis::push, WRITE -3 One EACH
        c"key item [item ...]: pushes items into a window; replies whether each was in it";
    c"TAMIS.PUSHAT" tamis::pushat, WRITE -3 One EACH
        c"key milliseconds [item ...]: pushes items at a time of the past or present, and forgets older ones";
    c"TAMIS.GET" tamis::get, READ -3 One EACH c"key item [item ...]: replies the value of each item";
    c"TAMIS.SET" tamis::set, WRITE 4 One ONE c"key item value: replaces the value of an item of a map";
    c"TAMIS.BUILD" build::command, TELLS -3 From EACH
        c"key FROM source kind fpr [options] | BEGIN kind fpr [options] | KEYS item... | ENTRIES item value... | END: builds a filter of all keys at once, in a thread";
    c"TAMIS.MERGE" tamis::merge, SLOW -3 All BYTES
        c"destination source [source ...]: adds the items of filters of the same shape and seed";
    c"TAMIS.LOAD" tamis::load, SLOW 4 One BYTES
        c"key offset bytes: loads a filter from the bytes of a .tamis file, in chunks";
    c"TAMIS.DUMP" tamis::dump, SCAN -3 One BYTES
        c"key offset [COUNT bytes]: replies the next offset and bytes of the filter's .tamis file";
    c"TAMIS.INFO" tamis::info, SCAN 2 One ONE c"key: describes a filter";
    c"TAMIS.PLAN" tamis::plan, SCAN -3 None ONE
        c"capacity fpr [KIND kind] [NEED capability]...: compares the kinds of filters";
    c"TAMIS.ADAPT" tamis::adapt, WRITE -3 One EACH
        c"key item [member ...]: makes the filter deny a false positive, given the members in its range";
};

const BLOOM: [Command; 11] = commands! {
    c"BF.RESERVE" bloom::reserve, SLOW -4 One BYTES
        c"key error_rate capacity [EXPANSION expansion] [NONSCALING]: makes an empty filter";
    c"BF.ADD" bloom::add, WRITE 3 One ONE c"key item: adds an item";
    c"BF.MADD" bloom::madd, WRITE -3 One EACH c"key item [item ...]: adds items";
    c"BF.INSERT" bloom::insert, WRITE -4 One EACH
        c"key [CAPACITY capacity] [ERROR error] [EXPANSION expansion] [NOCREATE] [NONSCALING] ITEMS item [item ...]: adds items";
    c"BF.EXISTS" bloom::exists, READ 3 One ONE c"key item: replies whether the item may be in the filter";
    c"BF.MEXISTS" bloom::mexists, READ -3 One EACH c"key item [item ...]: the same for items";
    c"BF.INFO" bloom::info, SCAN -2 One ONE
        c"key [CAPACITY | SIZE | FILTERS | ITEMS | EXPANSION]: describes a filter";
    c"BF.CARD" bloom::card, READ 2 One ONE c"key: replies the number of items";
    c"BF.DEBUG" bloom::debug, SCAN 2 One ONE c"key: describes the memory of a filter";
    c"BF.SCANDUMP" bloom::scandump, SCAN 3 One BYTES
        c"key iterator: replies the next iterator and bytes of a filter";
    c"BF.LOADCHUNK" bloom::loadchunk, SLOW 4 One BYTES c"key iterator data: loads what BF.SCANDUMP replied";
};

const CUCKOO: [Command; 12] = commands! {
    c"CF.RESERVE" cuckoo::reserve, SLOW -3 One BYTES
        c"key capacity [BUCKETSIZE size] [MAXITERATIONS iterations] [EXPANSION expansion]: makes an empty filter";
    c"CF.ADD" cuckoo::add, WRITE 3 One ONE c"key item: adds an item";
    c"CF.ADDNX" cuckoo::addnx, WRITE 3 One ONE c"key item: adds an item unless it seems to be in";
    c"CF.INSERT" cuckoo::insert, WRITE -4 One EACH
        c"key [CAPACITY capacity] [NOCREATE] ITEMS item [item ...]: adds items";
    c"CF.INSERTNX" cuckoo::insertnx, WRITE -4 One EACH
        c"key [CAPACITY capacity] [NOCREATE] ITEMS item [item ...]: adds items that seem not to be in";
    c"CF.EXISTS" cuckoo::exists, READ 3 One ONE c"key item: replies whether the item may be in the filter";
    c"CF.MEXISTS" cuckoo::mexists, READ -3 One EACH c"key item [item ...]: the same for items";
    c"CF.DEL" cuckoo::del, REMOVE 3 One ONE c"key item: removes an item that was added";
    c"CF.COUNT" cuckoo::count, READ 3 One ONE c"key item: replies how often an item was added, at least";
    c"CF.INFO" cuckoo::info, SCAN 2 One ONE c"key: describes a filter";
    c"CF.SCANDUMP" cuckoo::scandump, SCAN 3 One BYTES
        c"key iterator: replies the next iterator and bytes of a filter";
    c"CF.LOADCHUNK" cuckoo::loadchunk, SLOW 4 One BYTES c"key iterator data: loads what CF.SCANDUMP replied";
};

/// The access category of all commands, on servers that allow modules to add one.
const CATEGORY: &CStr = c"tamis";

/// Registers all commands. `BF.*` and `CF.*` are left out if the server has them already.
///
/// # Errors
/// The name of a command that the server refused.
pub(crate) fn register(ctx: *mut raw::RedisModuleCtx) -> Result<(), String> {
    // SAFETY: the server sets these pointers when it loads the module; older servers lack them.
    let (add, set) =
        unsafe { (raw::RedisModule_AddACLCategory, raw::RedisModule_SetCommandACLCategories) };
    // SAFETY: the context is that of the load, and the server copies the name.
    let has_category =
        add.is_some_and(|add| unsafe { add(ctx, CATEGORY.as_ptr()) } == raw::Status::Ok as c_int);
    for group in [&TAMIS[..], &BLOOM, &CUCKOO] {
        for command in group {
            if !create(ctx, command) {
                if ptr::eq(group, &TAMIS[..]) {
                    return Err(command.name.to_string_lossy().into_owned());
                }
                break;
            }
            let created = describe(ctx, command)?;
            if let (Some(set), true) = (set, has_category) {
                // SAFETY: the command was created, and the server copies the categories.
                unsafe { set(created, categories(command).as_ptr()) };
            }
        }
    }
    Ok(())
}

/// Returns the access categories of a command: ours, and those that its flags imply.
fn categories(command: &Command) -> CString {
    let flags = command.flags.to_string_lossy();
    let access = if flags.contains("readonly") { "read" } else { "write" };
    let speed = if flags.contains("fast") { "fast" } else { "slow" };
    CString::new(format!("tamis {access} {speed}")).unwrap_or_default()
}

fn create(ctx: *mut raw::RedisModuleCtx, command: &Command) -> bool {
    let (first, last, step) = match command.keys {
        Keys::None => (0, 0, 0),
        Keys::One | Keys::From => (1, 1, 1),
        Keys::All => (1, -1, 1),
    };
    // SAFETY: the context is that of the load, and the server copies the strings.
    let status = unsafe {
        api!(RedisModule_CreateCommand)(
            ctx,
            command.name.as_ptr(),
            Some(command.entry),
            command.flags.as_ptr(),
            first,
            last,
            step,
        )
    };
    status == raw::Status::Ok as c_int
}

/// Sets what `COMMAND DOCS` and `COMMAND INFO` say. Returns the command.
fn describe(
    ctx: *mut raw::RedisModuleCtx,
    command: &Command,
) -> Result<*mut raw::RedisModuleCommand, String> {
    let refused = || command.name.to_string_lossy().into_owned();
    // SAFETY: the context is that of the load.
    let created = unsafe { api!(RedisModule_GetCommand)(ctx, command.name.as_ptr()) };
    if created.is_null() {
        return Err(refused());
    }
    let version = raw::RedisModuleCommandInfoVersion {
        version: 1,
        sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
        sizeof_keyspec: size_of::<raw::RedisModuleCommandKeySpec>(),
        sizeof_arg: size_of::<raw::RedisModuleCommandArg>(),
    };
    let mut specs = key_specs(command);
    let info = raw::RedisModuleCommandInfo {
        version: &version,
        summary: command.summary.as_ptr(),
        complexity: command.complexity.as_ptr(),
        since: c"0.1.0".as_ptr(),
        history: ptr::null_mut(),
        tips: ptr::null(),
        arity: command.arity,
        key_specs: specs.as_mut_ptr(),
        args: ptr::null_mut(),
    };
    // SAFETY: the list of keys ends with an empty entry, and the server copies everything.
    match unsafe { api!(RedisModule_SetCommandInfo)(created, &info) } {
        status if status == raw::Status::Ok as c_int => Ok(created),
        _ => Err(refused()),
    }
}

/// Returns which arguments are keys, and what the command does with them; an empty entry ends the list.
fn key_specs(command: &Command) -> Vec<raw::RedisModuleCommandKeySpec> {
    // SAFETY: all fields are integers, pointers and unions of them, for which zero is valid.
    let empty: raw::RedisModuleCommandKeySpec = unsafe { std::mem::zeroed() };
    let read = raw::REDISMODULE_CMD_KEY_RO | raw::REDISMODULE_CMD_KEY_ACCESS;
    let write = raw::REDISMODULE_CMD_KEY_RW
        | raw::REDISMODULE_CMD_KEY_ACCESS
        | raw::REDISMODULE_CMD_KEY_UPDATE;
    let range = |flags: u32, first: c_int, last: c_int| {
        let mut spec = empty;
        spec.flags = flags.into();
        spec.begin_search_type = raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX;
        spec.bs.index.pos = first;
        spec.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE;
        spec.fk.range.lastkey = last;
        spec.fk.range.keystep = 1;
        spec
    };
    let reads = command.flags.to_string_lossy().contains("readonly");
    let mut specs = match command.keys {
        Keys::None => vec![],
        Keys::One => vec![range(if reads { read } else { write }, 1, 0)],
        Keys::All => vec![range(write, 1, 0), range(read, 2, -1)],
        Keys::From => {
            let mut source = range(read, 1, 0);
            source.begin_search_type =
                raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_KEYWORD;
            source.bs.keyword.keyword = c"FROM".as_ptr();
            source.bs.keyword.startfrom = 2;
            vec![range(write, 1, 0), source]
        }
    };
    specs.push(empty);
    specs
}
