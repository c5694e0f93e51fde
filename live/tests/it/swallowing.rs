//! A way to a server on which connections can stop carrying anything, without a word to either end.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;

/// Listens in a directory of its own, beside that of the server's socket.
pub struct Swallowing {
    dir: TempDir,
    /// Connections opened before this turn carry nothing any more.
    turn: watch::Sender<u64>,
}

impl Swallowing {
    pub fn before(socket: PathBuf) -> Self {
        let parent = socket.parent().and_then(Path::parent).expect("it is in a directory of its own");
        let dir = TempDir::with_prefix_in("bongsu-way-", parent).unwrap();
        let listener = UnixListener::bind(dir.path().join(socket.file_name().unwrap())).unwrap();
        let (turn, _) = watch::channel(0);
        let turns = turn.clone();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let (mut turn, socket) = (turns.subscribe(), socket.clone());
                let opened_at = *turn.borrow();
                tokio::spawn(async move {
                    let mut server = UnixStream::connect(socket).await.unwrap();
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => return,
                        _ = turn.wait_for(|turn| *turn > opened_at) => {}
                    }
                    std::future::pending::<()>().await;
                });
            }
        });
        Self { dir, turn }
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// From now on, connections that there are carry nothing. New ones do.
    pub fn swallow(&self) {
        self.turn.send_modify(|turn| *turn += 1);
    }
}
