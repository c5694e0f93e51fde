//! A TCP port in front of a Postgres that listens on a Unix socket: a network that can fail.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Forwards until it is dropped.
pub struct TcpProxy {
    pub address: SocketAddr,
    network: Arc<Network>,
    _accepting: AbortOnDropHandle<()>,
}

#[derive(Default)]
struct Network {
    /// While true nothing is carried, and nothing is lost.
    stalled: watch::Sender<bool>,
    /// New connections never hear anything.
    mute: AtomicBool,
    open: Mutex<Vec<Arc<Link>>>,
}

/// One connection.
struct Link {
    mute: AtomicBool,
    reset: CancellationToken,
}

impl TcpProxy {
    /// In front of the server at this Unix socket.
    pub async fn start(server: PathBuf) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let network = Arc::new(Network::default());
        let accepting = tokio::spawn(accept(listener, server, network.clone()));
        Self { address, network, _accepting: AbortOnDropHandle::new(accepting) }
    }

    /// From now on nothing arrives, and what is sent waits; or it goes on.
    pub fn stall(&self, stalled: bool) {
        self.network.stalled.send_replace(stalled);
    }

    /// Ends every connection with a reset.
    pub fn reset(&self) {
        for link in self.network.open.lock().unwrap().drain(..) {
            link.reset.cancel();
        }
    }

    /// From now on no connection that is open ever hears from the server again, though the server still hears it.
    pub fn mute_open(&self) {
        for link in self.network.open.lock().unwrap().iter() {
            link.mute.store(true, Ordering::SeqCst);
        }
    }

    /// How many open connections will never hear from the server.
    pub fn mute(&self) -> usize {
        let open = self.network.open.lock().unwrap();
        // Whoever carries for it has a reference too.
        open.iter().filter(|link| Arc::strong_count(link) > 1 && link.mute.load(Ordering::SeqCst)).count()
    }

    /// Whether connections are accepted only, and never answered.
    pub fn mute_new(&self, mute: bool) {
        self.network.mute.store(mute, Ordering::SeqCst);
    }
}

async fn accept(listener: TcpListener, server: PathBuf, network: Arc<Network>) {
    loop {
        let (client, _) = listener.accept().await.unwrap();
        let mute = AtomicBool::new(network.mute.load(Ordering::SeqCst));
        let link = Arc::new(Link { mute, reset: CancellationToken::new() });
        network.open.lock().unwrap().push(link.clone());
        tokio::spawn(serve(client, server.clone(), link, network.stalled.subscribe()));
    }
}

async fn serve(mut client: TcpStream, server: PathBuf, link: Arc<Link>, stalled: watch::Receiver<bool>) {
    client.set_nodelay(true).unwrap();
    // A server that is away is a connection that closes.
    let Ok(mut server) = UnixStream::connect(server).await else { return };
    let carried = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let deaf = AtomicBool::new(false);
        tokio::select! {
            _ = carry(from_client, to_server, &deaf, stalled.clone()) => true,
            _ = carry(from_server, to_client, &link.mute, stalled) => true,
            () = link.reset.cancelled() => false,
        }
    };
    if !carried {
        // With this, closing says RST and not FIN.
        client.set_zero_linger().unwrap();
    }
}

async fn carry(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    lost: &AtomicBool,
    mut stalled: watch::Receiver<bool>,
) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let n = from.read(&mut buffer).await?;
        // The network is gone with the test.
        let _ = stalled.wait_for(|stalled| !stalled).await;
        if n == 0 {
            return Ok(());
        }
        if !lost.load(Ordering::SeqCst) {
            to.write_all(&buffer[..n]).await?;
        }
    }
}
