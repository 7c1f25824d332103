//! `tamis push`, `tamis pull` and `tamis shard`: filters to and from Redis and Valkey servers.

use anyhow::Result;

use crate::args::server::Server;

#[cfg(feature = "redis")]
pub(crate) fn run(command: &Server) -> Result<()> {
    match command {
        Server::Push(args) => client::push(args),
        Server::Pull(args) => client::pull(args),
        Server::Shard(args) => client::shard(args),
    }
}

#[cfg(not(feature = "redis"))]
pub(crate) fn run(_: &Server) -> Result<()> {
    anyhow::bail!("this command needs a build with --features redis")
}

#[cfg(feature = "redis")]
mod client {
    use std::fs::File;
    use std::io::{BufWriter, Write};
    use std::path::{Path, PathBuf};

    use anyhow::{Context, Result, bail};
    use tamis_redis_client::{Connection, ShardedFilter};

    use crate::args::server::{Pull, Push, Shard};
    use crate::errors::failure;
    use crate::input::{Batch, Keys, Separator};
    use crate::{files, progress};

    pub(super) fn push(args: &Push) -> Result<()> {
        files::check_stdin(&args.filters, None)?;
        let location = Location::parse(&args.location)?;
        let filters =
            args.filters.iter().map(|path| files::open(path, true)).collect::<Result<Vec<_>>>()?;
        let mut connection = location.connect()?;
        let bar = progress::transfer("sending", args.quiet);
        let show = |done, total| {
            bar.set_length(total);
            bar.set_position(done);
        };
        let pushed = match &filters[..] {
            [filter] => tamis_redis_client::push(&mut connection, location.key, filter, show),
            shards => match u32::try_from(shards.len()) {
                Ok(count @ ..=ShardedFilter::MAX_SHARDS) => {
                    ShardedFilter::new(location.key, count).push(&mut connection, shards, show)
                }
                _ => bail!("a filter has at most {} shards", ShardedFilter::MAX_SHARDS),
            },
        };
        bar.finish_and_clear();
        pushed.map_err(|error| failure(location.shown, &error))
    }

    pub(super) fn pull(args: &Pull) -> Result<()> {
        let location = Location::parse(&args.location)?;
        let targets = match args.shards {
            Some(shards) => shard_files(&args.output, shards)?,
            None => vec![args.output.clone()],
        };
        targets.iter().try_for_each(|target| files::check_target(target))?;
        let mut connection = location.connect()?;
        let bar = progress::transfer("receiving", args.quiet);
        for (shard, target) in (0..).zip(&targets) {
            let key = match args.shards {
                Some(shards) => ShardedFilter::new(location.key, shards).key(shard),
                None => location.key.into(),
            };
            let filter = tamis_redis_client::pull(&mut connection, &key, |done, total| {
                bar.set_length(total);
                bar.set_position(done);
            });
            let filter = filter.map_err(|error| failure(location.naming(&key), &error))?;
            files::save(&filter, target)?;
        }
        bar.finish_and_clear();
        Ok(())
    }

    pub(super) fn shard(args: &Shard) -> Result<()> {
        let names = shard_files(&args.output, args.shards)?;
        for name in &names {
            let same = |key: &PathBuf| {
                name.canonicalize()
                    .is_ok_and(|name| key.canonicalize().is_ok_and(|key| key == name))
            };
            if args.keys.iter().any(same) {
                bail!("{}: is a file of keys, which would be overwritten", name.display());
            }
        }
        let keys = Keys::open(&args.keys, Separator::Newline, false)?;
        let failed = |path: &PathBuf, error| failure(path.display(), &error);
        let create = |path: &PathBuf| {
            File::create(path).map(BufWriter::new).map_err(|error| failed(path, error))
        };
        let mut outputs = names.iter().map(create).collect::<Result<Vec<_>>>()?;
        let filter = ShardedFilter::new("", args.shards);
        let split = |batch: &Batch<'_>| -> Vec<Vec<u8>> {
            let mut lines = vec![Vec::new(); args.shards as usize];
            for key in batch.keys() {
                let lines = &mut lines[filter.shard(key) as usize];
                lines.extend_from_slice(key);
                lines.push(b'\n');
            }
            lines
        };
        keys.each_batch(1, split, |shards| {
            for ((lines, output), name) in shards.iter().zip(&mut outputs).zip(&names) {
                output.write_all(lines).map_err(|error| failed(name, error))?;
            }
            Ok(())
        })?;
        for (output, name) in outputs.iter_mut().zip(&names) {
            output.flush().map_err(|error| failed(name, error))?;
        }
        Ok(())
    }

    /// Returns the names of the shards' files: `{}` becomes the number of the shard.
    fn shard_files(pattern: &Path, shards: u32) -> Result<Vec<PathBuf>> {
        let name = pattern.to_str().filter(|name| name.contains("{}"));
        let name = name.with_context(|| {
            format!("{}: the name has no {{}} for the number of the shard", pattern.display())
        })?;
        Ok((0..shards).map(|shard| name.replace("{}", &shard.to_string()).into()).collect())
    }

    /// A key of a server.
    struct Location<'a> {
        address: &'a str,
        key: &'a str,
        /// The location without a user's name and password, for messages.
        shown: String,
    }

    impl<'a> Location<'a> {
        fn parse(location: &'a str) -> Result<Self> {
            let (address, key) = location.split_once('#').unwrap_or((location, ""));
            let mut shown = match (address.split_once("://"), address.rsplit_once('@')) {
                (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
                _ => address.into(),
            };
            if key.is_empty() {
                bail!("{shown}: has no #KEY after the address");
            }
            shown.extend(["#", key]);
            Ok(Self { address, key, shown })
        }

        fn connect(&self) -> Result<Connection> {
            Connection::open(self.address).map_err(|error| failure(&self.shown, &error))
        }

        /// Returns the location with another key, for messages.
        fn naming(&self, key: &str) -> String {
            let address = self.shown.split('#').next().unwrap_or_default();
            format!("{address}#{key}")
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn messages_show_no_password() {
            let location = Location::parse("redis://me:secret@host:1/#a@b").unwrap();
            assert_eq!((location.address, location.key), ("redis://me:secret@host:1/", "a@b"));
            assert_eq!(location.shown, "redis://host:1/#a@b");
            assert_eq!(Location::parse("redis://h:1/#k").unwrap().shown, "redis://h:1/#k");
            assert_eq!(Location::parse("redis://h:1/#k").unwrap().naming("x"), "redis://h:1/#x");
            let error = Location::parse("redis://me:secret@h").err().unwrap().to_string();
            assert_eq!(error, "redis://h: has no #KEY after the address");
        }
    }
}
