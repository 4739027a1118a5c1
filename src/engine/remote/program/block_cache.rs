//! The source of a run in blocks, read from the server when they are requested, and a little ahead.

use std::num::NonZeroUsize;
use std::sync::Arc;

use bytes::Bytes;
use lru::LruCache;
use tokio::sync::Mutex;

use super::server_client::ServerClient;
use crate::engine::remote::message::WorkOrder;

/// Size of a block, bytes.
const BLOCK_BYTES: u64 = 256 << 10;

/// Blocks in memory: 16 MiB.
const MAX_BLOCKS: NonZeroUsize = NonZeroUsize::new(64).expect("not 0");

/// Blocks read at once when a reader goes forward.
const READ_AHEAD_BLOCKS: u64 = 4;

/// The blocks of one file.
pub struct BlockCache {
    server: Arc<ServerClient>,
    order: Arc<WorkOrder>,
    blocks: Mutex<Blocks>,
}

struct Blocks {
    cached: LruCache<u64, Bytes>,
    /// The block that was requested last.
    last: Option<u64>,
}

impl BlockCache {
    pub fn new(server: Arc<ServerClient>, order: Arc<WorkOrder>) -> Self {
        let blocks = Mutex::new(Blocks { cached: LruCache::new(MAX_BLOCKS), last: None });
        Self { server, order, blocks }
    }

    /// Length of the file, bytes.
    pub fn len(&self) -> u64 {
        self.order.len
    }

    /// The bytes from `offset` to the end of its block; empty at the end of the file.
    ///
    /// # Errors
    /// Those of [`ServerClient::read_source`].
    pub async fn read(&self, offset: u64) -> Result<Bytes, String> {
        if offset >= self.len() {
            return Ok(Bytes::new());
        }
        let number = offset / BLOCK_BYTES;
        let mut blocks = self.blocks.lock().await;
        let is_forward = blocks.last.is_some_and(|last| number == last || number == last + 1);
        blocks.last = Some(number);
        let cached = blocks.cached.get(&number).cloned();
        let block = match cached {
            Some(block) => block,
            None => {
                let count = if is_forward { READ_AHEAD_BLOCKS } else { 1 };
                let start = number * BLOCK_BYTES;
                let len = (count * BLOCK_BYTES).min(self.len() - start);
                let bytes = self.server.read_source(&self.order, start, len).await?;
                for (index, first) in (0..bytes.len()).step_by(BLOCK_BYTES as usize).enumerate() {
                    let last = (first + BLOCK_BYTES as usize).min(bytes.len());
                    blocks.cached.put(number + index as u64, Bytes::copy_from_slice(&bytes[first..last]));
                }
                blocks.cached.get(&number).cloned().ok_or("a block is missing")?
            }
        };
        Ok(block.slice((offset % BLOCK_BYTES) as usize..))
    }
}
