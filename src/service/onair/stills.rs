//! Pictures that stand where there is none: one of each size, made when it is first needed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OnceCell;

use crate::domain::mpegts::air::Still;
use crate::domain::schedule::cut::Look;
use crate::engine::still;
use crate::error::{Code, Error, Result};
use crate::service::Service;

/// Sizes kept; each is some tens of kilobytes.
const KEPT: usize = 32;

#[derive(Default)]
pub(super) struct Stills(Mutex<HashMap<Shape, Made>>);

/// Size, and what is written into it.
type Shape = ((u32, u32), Option<String>);

/// A still, or its making.
type Made = Arc<OnceCell<Arc<Still>>>;

impl Stills {
    /// # Errors
    /// `TRANSCODER_UNAVAILABLE` when nothing here can encode it.
    pub(super) async fn of(&self, service: &Service, look: &Look, line: Option<&str>) -> Result<Arc<Still>> {
        let even = |side: u32, usual: u32| if side < 16 { usual } else { side.min(4096) & !1 };
        let size = (even(look.width, 1280), even(look.height, 720));
        let shape = (size, line.map(str::to_owned));
        let cell = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if all.len() >= KEPT && !all.contains_key(&shape) {
                all.clear();
            }
            all.entry(shape).or_default().clone()
        };
        let made = cell.get_or_try_init(|| async {
            let report = service.transcoder.report().await;
            let encoder = report.proven.first().map(|encoder| encoder.name);
            let none = || Error::new(Code::TranscoderUnavailable, "no video encoder works on this machine");
            let (ffmpeg, encoder) = (&service.config.ffmpeg, encoder.ok_or_else(none)?);
            let mut made = still::make(ffmpeg, encoder, size, line).await;
            if let (Err(fault), Some(_)) = (&made, line) {
                tracing::warn!(%fault, "a slate goes without its text");
                made = still::make(ffmpeg, encoder, size, None).await;
            }
            made.map(Arc::new).map_err(|cause| none().with_cause(cause))
        });
        made.await.cloned()
    }
}
