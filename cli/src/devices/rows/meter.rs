//! How far reading has come.

use std::io::{self, BufRead, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Shared by who reads and who shows the progress.
#[derive(Debug, Default)]
pub struct Meter {
    bytes: AtomicU64,
    rows: AtomicU64,
}

impl Meter {
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }
}

/// An input that counts.
#[derive(Debug)]
pub struct Metered<R> {
    input: R,
    meter: Arc<Meter>,
}

impl<R: BufRead> Metered<R> {
    pub fn new(input: R, meter: Arc<Meter>) -> Self {
        Self { input, meter }
    }

    /// A row has been read.
    pub fn row_done(&self) {
        self.meter.rows.fetch_add(1, Ordering::Relaxed);
    }
}

impl<R: BufRead> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.meter.bytes.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

impl<R: BufRead> BufRead for Metered<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.input.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.meter.bytes.fetch_add(amount as u64, Ordering::Relaxed);
        self.input.consume(amount);
    }
}
