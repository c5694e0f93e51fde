// All of Bongsu, as `bongsu dev` runs it, with several senders behind one address.

import { execFile, spawn } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';

const run = promisify(execFile);

export async function startStack(bongsu, senders) {
  const child = spawn(bongsu, ['dev', '--any-port', '--json', '--senders', String(senders)], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(child, 'exit');
  const greeting = await announced(child, ended);
  const balancer = await balance(greeting.live);
  const command = async (...args) => {
    const env = { ...process.env, BONGSU_INTAKE: greeting.intake, BONGSU_SENDER: greeting.senders.at(-1) };
    const { stdout } = await run(bongsu, [...args, '--json'], { env });
    return JSON.parse(stdout.trim().split('\n').at(-1));
  };
  return {
    url: balancer.url,
    cut: balancer.cut, // breaks all connections
    page: greeting.live_page,
    // In the order in which the balancer tries them.
    pids: greeting.sender_pids,
    token: (user, lifeS = 3600) => token(greeting.live_jwks, user, lifeS),
    send: async (user, title, ...more) => (await command('send', '--user', user, '--title', title, ...more)).broadcast.id,
    status: (id) => command('status', id),
    pushes: async () => (await fetch(`${greeting.provider_sim}/stats`)).json().then((stats) => stats.accepted),
    // One more sender, with more arguments; where its live channel is, and how to stop it.
    async sender(...args) {
      const usual = ['--listen', '127.0.0.1:0', '--admin-listen', '127.0.0.1:0', '--webhook', `push=${greeting.provider_sim}/push`];
      const live = ['--live-listen', '127.0.0.1:0', '--live-jwks', greeting.live_jwks, '--log', 'warn'];
      const env = { ...process.env, BONGSU_DATABASE_URL: greeting.database_url };
      const more = spawn(bongsu, ['sender', ...usual, ...live, ...args, '--announce'], { stdio: ['ignore', 'pipe', 'inherit'], env });
      const ended = once(more, 'exit');
      const { live: address } = await announced(more, ended);
      return { url: `http://${address}/`, stop: () => more.kill('SIGTERM') && ended };
    },
    async stop() {
      balancer.close();
      child.kill('SIGTERM');
      await ended;
    },
  };
}

// What it writes first, as one line of JSON.
async function announced(child, ended) {
  const died = ended.then(() => { throw new Error(`${child.spawnargs.slice(0, 2).join(' ')} did not start`); });
  const [line] = await Promise.race([once(createInterface(child.stdout), 'line'), died]);
  died.catch(() => {}); // its end is no surprise any more
  return JSON.parse(line);
}

// A token by the key in the file of the stack, with any life.
function token(jwks, user, lifeS) {
  const { kid, k } = JSON.parse(readFileSync(jwks, 'utf8')).keys[0];
  const part = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const signed = `${part({ alg: 'HS256', typ: 'JWT', kid })}.${part({ sub: user, exp: Math.floor(Date.now() / 1000) + lifeS })}`;
  return `${signed}.${createHmac('sha256', Buffer.from(k, 'base64url')).update(signed).digest('base64url')}`;
}

// What a load balancer is to browsers: one address that leads to the first sender that takes a connection.
async function balance(urls) {
  const sockets = new Set();
  const attach = (client, [url, ...others]) => {
    if (!url) { client.destroy(); return; }
    const { hostname, port } = new URL(url);
    const upstream = connect(Number(port), hostname);
    let open = false;
    upstream.on('connect', () => { open = true; client.pipe(upstream).pipe(client); });
    upstream.on('error', () => (open ? client.destroy() : attach(client, others)));
    upstream.on('close', () => open && client.destroy());
    client.on('close', () => upstream.destroy());
  };
  const server = createServer((client) => {
    sockets.add(client);
    client.on('error', () => client.destroy());
    client.on('close', () => sockets.delete(client));
    attach(client, urls);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${server.address().port}/`,
    cut: () => sockets.forEach((socket) => socket.destroy()),
    close() { server.close(); this.cut(); },
  };
}
