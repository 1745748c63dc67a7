//! Connections, with their limits: how many, how long a head may take, and how long a reader may be silent.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use herm::{Clock as _, SystemClock, Timestamp};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::Sleep;

use super::app::App;

/// The largest head, and the most headers.
const HEAD_BYTES: usize = 16 << 10;
const HEADERS: usize = 64;
/// So long connections have to end once everything is answered.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Takes connections until the server closes, then lets those that are open come to their end.
pub(crate) async fn listen(app: &App, listener: TcpListener, router: Router) {
    let room = Arc::new(Semaphore::new(app.limits.connections));
    let graceful = GracefulShutdown::new();
    let mut closing = app.closing.subscribe();
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &room) => accepted,
            _ = closing.wait_for(|closing| *closing) => break,
        };
        let Some((stream, permit)) = accepted else { continue };
        if clock_is_off() {
            tracing::error!("the clock is past the year 9999, and HTTP cannot write that date; set the clock");
            continue;
        }
        let counted = app.meter.connected();
        let io = TokioIo::new(Patient::new(stream, app.limits.silence));
        let serving = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(app.limits.head)
            .max_buf_size(HEAD_BYTES)
            .max_headers(HEADERS)
            .half_close(false)
            .serve_connection(io, TowerToHyperService::new(router.clone()));
        let watched = graceful.watch(serving);
        tokio::spawn(async move {
            // A client that goes away, or sends what is no HTTP, is its own affair.
            let mut watched = std::pin::pin!(watched);
            let serving = std::future::poll_fn(|cx| match clock_is_off() {
                true => Poll::Ready(Ok(())),
                false => watched.as_mut().poll(cx),
            });
            if let Err(error) = serving.await {
                tracing::debug!(%error, "a connection ended");
            }
            drop(counted);
            drop(permit);
        });
    }
    drop(listener);
    if tokio::time::timeout(LAST_WORDS + Duration::from_secs(app.limits.shutdown_secs), graceful.shutdown())
        .await
        .is_err()
    {
        tracing::info!("connections that did not end are cut");
    }
}

/// Whether the date cannot be written: hyper panics where it has to, so its connections are let go before.
fn clock_is_off() -> bool {
    SystemClock.now() >= Timestamp::LAST
}

/// The next connection, once there is room for it.
async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let permit = Arc::clone(room).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => {
            // Small answers are not held back; a connection that does not take the option is served too.
            let _ = stream.set_nodelay(true);
            Some((stream, permit))
        }
        Err(error) => {
            // Out of descriptors: those in use come free again.
            tracing::warn!(%error, "a connection could not be taken");
            tokio::time::sleep(Duration::from_millis(50)).await;
            None
        }
    }
}

/// A connection whose other side must take what is sent to it.
struct Patient {
    stream: TcpStream,
    patience: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl Patient {
    fn new(stream: TcpStream, patience: Duration) -> Self {
        Self { stream, patience, waiting: None }
    }

    /// Ends the connection when nothing could be written for too long.
    fn patiently<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.waiting = None;
            return polled;
        }
        let patience = self.patience;
        let sleep = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        match sleep.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing"))),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Patient {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.patiently(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.patiently(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.patiently(cx, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
