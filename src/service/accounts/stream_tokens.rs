//! Stream tokens: one per device that cannot sign in, only for live television, and permanent.
//!
//! Kodi and Jellyfin identify a channel by its URL, so a URL that changed at every refresh would lose favourites.

use std::collections::HashMap;
use std::sync::Arc;

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use jiff::Timestamp;

use super::directory::{TokenHash, token_hash};
use super::last_use::LastUse;
use super::{Accounts, random_bytes};
use crate::domain::access::{Principal, Role};
use crate::domain::account::{self, StreamToken};
use crate::error::{Code, Error, Result};
use crate::store::{Batch, Tree};

/// Stream tokens of one user at most.
const MAX_TOKENS: usize = 100;

/// Channels one token may name.
const MAX_CHANNELS: usize = 2000;

/// How old the stored time of a token's last use may be, seconds.
const USED_LAG_SECONDS: i64 = 3600;

/// Tokens stored in one batch: each takes less than 32 KiB, most of it for [`MAX_CHANNELS`] channels.
const USED_BATCH: usize = 128;

/// A token with its last use.
#[derive(Debug)]
pub(super) struct ActiveStreamToken {
    token: StreamToken,
    channels: Option<Arc<[u32]>>,
    pub(super) last_use: LastUse,
}

/// All stream tokens, by hash and by id.
#[derive(Debug, Default)]
pub(super) struct StreamTokens {
    by_hash: HashMap<TokenHash, Arc<ActiveStreamToken>>,
    by_id: HashMap<String, Arc<ActiveStreamToken>>,
}

impl StreamTokens {
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<ActiveStreamToken>> {
        self.by_id.values()
    }

    pub(super) fn insert(&mut self, token: StreamToken) -> bool {
        let hash = HEXLOWER.decode(token.token_sha256.as_bytes()).ok().and_then(|hash| hash.try_into().ok());
        let Some(hash) = hash else { return false };
        let last_use = LastUse::from_stored(token.last_used_at.map_or(0, Timestamp::as_second));
        let channels = token.channels.clone().map(Arc::from);
        let stream = Arc::new(ActiveStreamToken { token, channels, last_use });
        self.by_id.insert(stream.token.id.clone(), stream.clone());
        self.by_hash.insert(hash, stream);
        true
    }

    fn remove(&mut self, id: &str) -> bool {
        self.by_hash.retain(|_, stream| stream.token.id != id);
        self.by_id.remove(id).is_some()
    }
}

impl ActiveStreamToken {
    fn current_record(&self) -> StreamToken {
        let last_used = Some(self.last_use.seconds()).filter(|last_used| *last_used > 0);
        let last_used_at = last_used.and_then(|last_used| Timestamp::from_second(last_used).ok());
        StreamToken { last_used_at, ..self.token.clone() }
    }
}

impl Accounts {
    /// Creates a stream token for a request of a user; `None` is the command line. Its secret is returned only here.
    ///
    /// # Errors
    /// `VALIDATION_ERROR`; `CONFLICT` when the limit is reached; `STORAGE_FULL`; `UNAUTHORIZED` when the login of the request
    /// ended meanwhile.
    pub async fn add_stream_token(
        &self,
        by: Option<&Principal>,
        user_id: &str,
        name: &str,
        channels: Option<Vec<u32>>,
        expires_at: Option<Timestamp>,
    ) -> Result<(StreamToken, String)> {
        let name = account::clean_device_name(name).ok_or_else(|| Error::invalid_field("name", "is required"))?;
        if channels.as_ref().is_some_and(|channels| channels.is_empty() || channels.len() > MAX_CHANNELS) {
            return Err(Error::invalid_field("channelIds", format!("must be 1 to {MAX_CHANNELS}, or null for all")));
        }
        let now = self.now();
        if expires_at.is_some_and(|at| at <= now) {
            return Err(Error::invalid_field("expiresAt", "must be in the future"));
        }
        let _change = self.change_by(by).await?;
        let user = self.get_user(user_id)?;
        if self.stream_tokens(user_id).len() >= MAX_TOKENS {
            return Err(Error::new(Code::Conflict, format!("the limit of {MAX_TOKENS} stream tokens is reached")));
        }
        let secret = format!("hcs_{}", BASE64URL_NOPAD.encode(&random_bytes::<32>()));
        let token = StreamToken {
            id: format!("s_{}", BASE64URL_NOPAD.encode(&random_bytes::<9>())),
            user_id: user.id,
            name,
            token_sha256: HEXLOWER.encode(&token_hash(&secret)),
            channels,
            created_at: now,
            last_used_at: None,
            expires_at,
        };
        self.store.put(Tree::StreamTokens, &token.id, &token).await?;
        self.write_stream_tokens().insert(token.clone());
        Ok((token, secret))
    }

    /// A user's stream tokens, the oldest first.
    pub fn stream_tokens(&self, user_id: &str) -> Vec<StreamToken> {
        let streams = self.read_stream_tokens();
        let own = streams.by_id.values().filter(|stream| stream.token.user_id == user_id);
        let mut tokens: Vec<StreamToken> = own.map(|stream| stream.current_record()).collect();
        tokens.sort_by(|a, b| a.created_at.cmp(&b.created_at).then(a.id.cmp(&b.id)));
        tokens
    }

    /// Number of stream tokens by user id, for users who have any.
    pub fn stream_token_counts(&self) -> HashMap<String, usize> {
        let mut counts = HashMap::new();
        for stream in self.read_stream_tokens().by_id.values() {
            *counts.entry(stream.token.user_id.clone()).or_default() += 1;
        }
        counts
    }

    pub(super) fn stream_token_ids(&self, user_id: &str) -> Vec<String> {
        let streams = self.read_stream_tokens();
        let own = streams.by_id.values().filter(|stream| stream.token.user_id == user_id);
        own.map(|stream| stream.token.id.clone()).collect()
    }

    /// Removes tokens from memory. The caller holds `change_lock` and deletes their records.
    pub(super) fn remove_stream_tokens(&self, ids: &[String]) {
        let mut streams = self.write_stream_tokens();
        for id in ids {
            streams.remove(id);
        }
    }

    /// Revokes a stream token, and every signature made with it.
    ///
    /// # Errors
    /// `NOT_FOUND` when it is not one of theirs; `STORAGE_FULL`.
    pub async fn revoke_stream_token(&self, user_id: &str, id: &str) -> Result<()> {
        let is_own = self.read_stream_tokens().by_id.get(id).is_some_and(|stream| stream.token.user_id == user_id);
        if !is_own {
            return Err(Error::new(Code::NotFound, "no such stream token"));
        }
        let _change = self.change_lock.lock().await;
        self.write_stream_tokens().remove(id);
        self.store.delete(Tree::StreamTokens, id).await.map(drop)
    }

    /// The principal of a stream token.
    ///
    /// # Errors
    /// `UNAUTHORIZED` for an unknown one, `TOKEN_EXPIRED` for one past its time.
    pub fn authenticate_stream(&self, secret: &str) -> Result<Arc<Principal>> {
        let hash = token_hash(secret);
        let stream = self.read_stream_tokens().by_hash.get(&hash).cloned();
        let unknown = || Error::new(Code::Unauthorized, "unknown stream token");
        let stream = stream.ok_or_else(unknown)?;
        self.token_principal(&stream)?.ok_or_else(unknown)
    }

    /// The principal of a signature made with a stream token; None when there is no such token.
    pub(super) fn signed_stream_principal(&self, id: &str) -> Option<Arc<Principal>> {
        let stream = self.read_stream_tokens().by_id.get(id).cloned()?;
        self.token_principal(&stream).ok().flatten()
    }

    fn token_principal(&self, stream: &ActiveStreamToken) -> Result<Option<Arc<Principal>>> {
        let now = self.now();
        if stream.token.expires_at.is_some_and(|at| at <= now) {
            return Err(Error::new(Code::TokenExpired, "the stream token has expired"));
        }
        stream.last_use.record(now.as_second());
        let directory = self.read_directory();
        Ok(directory.user(&stream.token.user_id).map(|user| {
            Arc::new(Principal {
                user_id: user.id.clone(),
                username: user.username.clone(),
                // Whatever the owner's role is, a stream token only permits watching.
                role: Role::User,
                login_id: stream.token.id.clone(),
                channels: stream.channels.clone(),
                expires_at: stream.token.expires_at.map(Timestamp::as_second),
                visibility: directory.visibility_of(user),
            })
        }))
    }

    /// Stores when tokens were last used; deletes those whose user was removed.
    pub(super) async fn cleanup_stream_tokens(&self) -> Result<()> {
        let change = self.change_lock.lock().await;
        let tokens: Vec<Arc<ActiveStreamToken>> = self.read_stream_tokens().by_id.values().cloned().collect();
        for stream in tokens {
            if self.read_directory().user(&stream.token.user_id).is_none() {
                self.write_stream_tokens().remove(&stream.token.id);
                self.store.delete(Tree::StreamTokens, &stream.token.id).await?;
            }
        }
        drop(change);
        self.write_used(USED_LAG_SECONDS).await
    }

    /// Stores the last use of tokens where it differs from the stored time by `lag_seconds` or more.
    pub(super) async fn write_used(&self, lag_seconds: i64) -> Result<()> {
        // A token that is revoked meanwhile must not be written again.
        let _change = self.change_lock.lock().await;
        let is_outdated = |stream: &&Arc<ActiveStreamToken>| stream.last_use.unstored_seconds() >= lag_seconds;
        let outdated: Vec<_> = self.read_stream_tokens().by_id.values().filter(is_outdated).cloned().collect();
        for streams in outdated.chunks(USED_BATCH) {
            let tokens: Vec<StreamToken> = streams.iter().map(|stream| stream.current_record()).collect();
            let mut batch = Batch::default();
            tokens.iter().try_for_each(|token| batch.put(Tree::StreamTokens, &token.id, token))?;
            self.store.write(batch).await?;
            for (stream, token) in streams.iter().zip(&tokens) {
                stream.last_use.mark_stored(token.last_used_at.map_or(0, Timestamp::as_second));
            }
        }
        Ok(())
    }
}
