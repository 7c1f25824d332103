//! Connections to servers and clusters.

use std::fmt;
use std::time::Duration;

use redis::cluster::{ClusterClient, ClusterConnection, cluster_pipe};
use redis::{Client, Cmd, FromRedisValue, Pipeline, Value, cmd, parse_redis_url};

use crate::Error;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The time limit of a reply: long enough for a server that checks a large filter.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

/// A connection to a server, or to all nodes of a cluster.
pub struct Connection(Inner);

enum Inner {
    Server(Box<redis::Connection>),
    Cluster(Box<ClusterConnection>),
}

impl Connection {
    /// Connects to a server, and if it is a node of a cluster, to the cluster.
    ///
    /// # Errors
    /// [`Error::Address`] for a URL that is not an address, and errors of the connection.
    pub fn open(url: &str) -> Result<Self, Error> {
        parse_redis_url(url).ok_or(Error::Address)?;
        let client = Client::open(url).map_err(|_| Error::Address)?;
        let mut server = client.get_connection_with_timeout(CONNECT_TIMEOUT)?;
        server.set_read_timeout(Some(REPLY_TIMEOUT))?;
        server.set_write_timeout(Some(REPLY_TIMEOUT))?;
        let info: String = cmd("INFO").arg("cluster").query(&mut server)?;
        if !info.contains("cluster_enabled:1") {
            return Ok(server.into());
        }
        let cluster = ClusterClient::builder([url])
            .connection_timeout(CONNECT_TIMEOUT)
            .response_timeout(REPLY_TIMEOUT)
            .build()?;
        Ok(cluster.get_connection()?.into())
    }

    /// Sends a command and returns its reply.
    pub(crate) fn query<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T, Error> {
        Ok(match &mut self.0 {
            Inner::Server(server) => command.query(server.as_mut())?,
            Inner::Cluster(cluster) => command.query(cluster.as_mut())?,
        })
    }

    /// Sends commands on keys of any slots at once, and returns their replies in the same order.
    pub(crate) fn query_all(&mut self, commands: Vec<Cmd>) -> Result<Vec<Value>, Error> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        Ok(match &mut self.0 {
            Inner::Server(server) => {
                let mut pipeline = Pipeline::new();
                commands.into_iter().for_each(|command| _ = pipeline.add_command(command));
                pipeline.query(server.as_mut())?
            }
            Inner::Cluster(cluster) => {
                let mut pipeline = cluster_pipe();
                commands.into_iter().for_each(|command| _ = pipeline.add_command(command));
                pipeline.query(cluster.as_mut())?
            }
        })
    }
}

impl From<redis::Connection> for Connection {
    fn from(server: redis::Connection) -> Self {
        Self(Inner::Server(Box::new(server)))
    }
}

impl From<ClusterConnection> for Connection {
    fn from(cluster: ClusterConnection) -> Self {
        Self(Inner::Cluster(Box::new(cluster)))
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            Inner::Server(_) => "Connection(server)",
            Inner::Cluster(_) => "Connection(cluster)",
        })
    }
}
