//! Filters in Redis and Valkey: a module with a native type, the commands `TAMIS.*`, and RedisBloom's
//! commands `BF.*` and `CF.*`.
//!
//! The module holds no algorithm: it translates arguments, replies and errors, and keeps filters in the
//! server's memory.

mod allocator;
mod arguments;
mod background;
mod bloom;
mod build;
mod commands;
mod cuckoo;
mod failure;
mod limits;
mod server;
mod tamis;
mod value;

use std::ffi::c_int;

use redis_module::raw;

use crate::server::{Argument, Context, api};

#[global_allocator]
static ALLOCATOR: allocator::ServerAllocator = allocator::ServerAllocator;

/// The version of the module, as `MODULE LIST` shows it: major * 10000 + minor * 100 + patch.
const VERSION: c_int = 100;

/// Loads the module.
///
/// # Safety
/// The server calls it, once, with a context and the arguments of the module.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the server looks for this name")]
pub unsafe extern "C" fn RedisModule_OnLoad(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: this sets the pointers to the server's functions. Nothing is allocated before.
    let status = unsafe {
        raw::Export_RedisModule_Init(
            ctx,
            c"tamis".as_ptr(),
            VERSION,
            raw::REDISMODULE_APIVER_1 as c_int,
        )
    };
    if status != raw::Status::Ok as c_int {
        return raw::Status::Err as c_int;
    }
    // SAFETY: the context is that of the load, and nothing is allocated yet.
    unsafe { allocator::configure(ctx) };
    ::tamis::set_table_memory(::tamis::TableMemory::GlobalAllocator);
    let arguments = match argc {
        0 => &[],
        // SAFETY: as in `server::enter`.
        _ => unsafe { std::slice::from_raw_parts(argv.cast::<Argument>(), argc as usize) },
    };
    let arguments: Vec<&[u8]> = arguments.iter().map(Argument::bytes).collect();
    match load(ctx, &arguments) {
        Ok(()) => raw::Status::Ok as c_int,
        Err(why) => {
            Context::of(&redis_module::Context::new(ctx)).log(c"warning", &why);
            raw::Status::Err as c_int
        }
    }
}

fn load(ctx: *mut raw::RedisModuleCtx, arguments: &[&[u8]]) -> Result<(), String> {
    limits::configure(arguments)?;
    // A stream that ends early is an error of the load, not the end of the server.
    // SAFETY: the context is that of the load.
    unsafe {
        api!(RedisModule_SetModuleOptions)(ctx, raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS as c_int);
    }
    if !value::register(ctx) {
        return Err("the server refused the data type".into());
    }
    commands::register(ctx).map_err(|name| format!("the server refused the command {name}"))?;
    // SAFETY: the context is that of the load.
    unsafe { api!(RedisModule_RegisterInfoFunc)(ctx, Some(info)) };
    Ok(())
}

/// Adds the section of `INFO`.
unsafe extern "C" fn info(ctx: *mut raw::RedisModuleInfoCtx, _: c_int) {
    let fields = [
        (c"used_bytes", allocator::used()),
        (c"max_filter_bytes", limits::filter_bytes()),
        (c"max_total_bytes", limits::total_bytes()),
        (c"jobs_running", background::running()),
    ];
    // SAFETY: the server passed the context, and copies names and numbers.
    unsafe {
        api!(RedisModule_InfoAddSection)(ctx, c"filters".as_ptr());
        for (name, value) in fields {
            api!(RedisModule_InfoAddFieldULongLong)(ctx, name.as_ptr(), value);
        }
    }
}
