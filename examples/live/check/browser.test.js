// The page of a sender in Chromium, against real processes. BONGSU and CHROMIUM name the executables.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { chromium } from 'playwright-core';

import { BongsuLive } from '../bongsu-live.js';
import { startApp } from './app.js';
import { startStack } from './stack.js';
import { until } from './until.js';

const CHROMIUM_ARGS = [
  '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync',
];
const LIVE_THEN_PUSH = ['--routing', 'live_then_push', '--ack-timeout', '60s'];
const SENDERS = 3;

let stack, browser;

before(async () => {
  stack = await startStack(process.env.BONGSU, SENDERS);
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: CHROMIUM_ARGS });
});
after(async () => {
  await browser?.close();
  await stack?.stop();
});

// A tab of a user, on the page; `handed` is what its client handed over, in order.
async function tab(t, token, link = `${stack.url}#${new URLSearchParams({ token })}`) {
  const context = await browser.newContext();
  const page = await context.newPage();
  const complaints = [];
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('console', (message) => message.text().includes('Content Security Policy') && complaints.push(message.text()));
  t.after(() => context.close());
  await page.goto(link);
  return {
    page,
    context,
    complaints,
    state: () => page.textContent('#state'),
    handed: () => page.$$eval('#log li', (lines) => lines.map((line) => /notification (\d+)/.exec(line.textContent)?.[1]).filter(Boolean).reverse()),
    titles: () => page.$$eval('#list li h3', (titles) => titles.map((title) => title.textContent)),
    unread: () => page.textContent('#unread'),
  };
}

const connected = (one) => until('connected', async () => await one.state() === 'connected');
const has = (one, id) => until(`notification ${id}`, async () => (await one.handed()).includes(id));
const times = async (one, id) => (await one.handed()).filter((other) => other === id).length;

async function acknowledged(id) {
  return until(`${id} is acknowledged and over`, async () => {
    const status = await stack.status(id);
    return status.live.acknowledged === 1 && status.state === 'completed' && status;
  });
}

test('what a connected user sees is acknowledged, and no push goes out', async (t) => {
  const minji = await tab(t, stack.token('minji'));
  await connected(minji);
  const before = await stack.pushes();
  const id = await stack.send('minji', '봉수', '--body', '남산에 불이 올랐습니다', ...LIVE_THEN_PUSH);
  await has(minji, id);
  assert.deepEqual(await minji.titles(), ['봉수']);
  const { counts } = await acknowledged(id);
  assert.equal(counts.skipped, 2, 'both of her devices');
  assert.equal(counts.sent, 0);
  assert.equal(await stack.pushes(), before);
  assert.equal(await times(minji, id), 1);
  assert.deepEqual(minji.complaints, []);
  assert.ok(!minji.page.url().includes('token'), 'the token does not stay in the address');
});

test('the link that `bongsu dev` prints opens the page as a sample user', async (t) => {
  const minji = await tab(t, undefined, stack.page);
  await connected(minji);
  assert.equal(await minji.page.textContent('#user'), 'minji');
});

test('who is not connected gets the push at once, and finds it in the inbox', async (t) => {
  const before = await stack.pushes();
  const id = await stack.send('joon', 'to whom it may concern', ...LIVE_THEN_PUSH);
  await until('a push', async () => await stack.pushes() === before + 1);
  const joon = await tab(t, stack.token('joon'));
  await has(joon, id);
  assert.deepEqual(await joon.titles(), ['to whom it may concern']);
});

test('two tabs of a user both show it, once each', async (t) => {
  const [first, second] = [await tab(t, stack.token('minji')), await tab(t, stack.token('minji'))];
  await Promise.all([connected(first), connected(second)]);
  const id = await stack.send('minji', 'in both', ...LIVE_THEN_PUSH);
  await Promise.all([has(first, id), has(second, id)]);
  const status = await acknowledged(id);
  assert.deepEqual([status.live.events, status.live.acknowledged], [1, 1]);
  assert.deepEqual([await times(first, id), await times(second, id)], [1, 1]);
});

test('a text with markup is shown as it was written', async (t) => {
  const minji = await tab(t, stack.token('minji'));
  await connected(minji);
  const title = '<img src=x onerror="globalThis.broken=1"><script>globalThis.broken=1</script>';
  const id = await stack.send('minji', title, '--body', title, '--data', `link=javascript:broken=1`, ...LIVE_THEN_PUSH);
  await has(minji, id);
  assert.ok((await minji.titles()).includes(title));
  assert.equal(await minji.page.$$eval('#list img, #list script, #list a', (found) => found.length), 0);
  assert.equal(await minji.page.evaluate(() => globalThis.broken), undefined);
  assert.deepEqual(minji.complaints, []);
});

test('what was read stays read, in other tabs too', async (t) => {
  const first = await tab(t, stack.token('minji'));
  await connected(first);
  const id = await stack.send('minji', 'to be read', ...LIVE_THEN_PUSH);
  await has(first, id);
  await until('unread', async () => Number(await first.unread()) > 0);
  await first.page.click('#read-all');
  await until('all read', async () => await first.unread() === '0');
  const second = await tab(t, stack.token('minji'));
  await until('its list', async () => (await second.titles()).includes('to be read'));
  await until('nothing unread', async () => await second.unread() === '0');
  assert.equal(await second.page.$$eval('#list li:not(.read)', (unread) => unread.length), 0);
});

test('a reload goes on where the tab was', async (t) => {
  const minji = await tab(t, stack.token('minji'));
  await connected(minji);
  const before = await stack.send('minji', 'before the reload', ...LIVE_THEN_PUSH);
  await has(minji, before);
  await minji.page.reload();
  const next = await stack.send('minji', 'after the reload', ...LIVE_THEN_PUSH);
  await has(minji, next);
  assert.deepEqual(await minji.handed(), [next], 'what was handed over before is not handed over again');
  await until('it is in the list all the same', async () => (await minji.titles()).includes('before the reload'));
});

test('an expired token is refused until there is a new one, and then nothing is missing', async (t) => {
  const joon = await tab(t, stack.token('joon', -3600));
  await until('refused', async () => await joon.state() === 'trying again: TOKEN_EXPIRED');
  const id = await stack.send('joon', 'while logged out', '--routing', 'live');
  await joon.page.fill('#token', stack.token('joon'));
  await joon.page.click('text=Connect');
  await has(joon, id);
  await connected(joon);
  assert.equal(await joon.page.isVisible('#token'), false);
});

test('a browser that was offline catches up', async (t) => {
  const minji = await tab(t, stack.token('minji'));
  await connected(minji);
  await minji.context.setOffline(true);
  await until('offline', async () => await minji.state() !== 'connected');
  const ids = [];
  for (const title of ['one', 'two', 'three']) ids.push(await stack.send('minji', title, '--routing', 'live'));
  await minji.context.setOffline(false);
  await has(minji, ids.at(-1));
  assert.deepEqual((await minji.handed()).filter((id) => ids.includes(id)), ids, 'in order, once each');
});

test('EventSource works with a ticket, and comes back by itself after the last event', async (t) => {
  const joon = await tab(t, stack.token('joon'));
  const first = await stack.send('joon', 'by EventSource', '--routing', 'live');
  await joon.page.evaluate(async (token) => {
    const answer = await fetch('/v1/live/ticket', { method: 'POST', headers: { Authorization: `Bearer ${token}` } });
    const { ticket } = await answer.json();
    globalThis.got = [];
    globalThis.source = new EventSource(`/v1/live?ticket=${encodeURIComponent(ticket)}`);
    source.addEventListener('notification', (event) => got.push([JSON.parse(event.data).notification_id, event.lastEventId]));
  }, stack.token('joon'));
  const seen = () => joon.page.evaluate(() => got);
  await has(joon, first);
  const second = await stack.send('joon', 'and another', '--routing', 'live');
  const came = (id) => until(`event of ${id}`, async () => (await seen()).find(([other]) => other === id));
  const [, lastEventId] = await came(second);
  assert.match(lastEventId, /^\d+-\d+$/);
  stack.cut();
  const third = await stack.send('joon', 'after the break', '--routing', 'live');
  await came(third);
  const ids = (await seen()).map(([id]) => id);
  assert.deepEqual(ids.slice(ids.indexOf(second)), [second, third], 'once each');
  await joon.page.evaluate(() => source.close());
});

test('a page of another host gets in where its origin is allowed, by token and by cookie', async (t) => {
  const [app, other] = [await startApp(), await startApp()];
  const sender = await stack.sender('--live-allow-origin', app.origin, '--live-cookie', 'session');
  const context = await browser.newContext();
  t.after(async () => { await context.close(); await sender.stop(); app.close(); other.close(); });
  const client = async (origin, token) => {
    const page = await context.newPage();
    await page.goto(origin);
    await page.evaluate(async ({ url, token }) => {
      const { BongsuLive } = await import('/bongsu-live.js');
      globalThis.got = [];
      globalThis.states = [];
      globalThis.live = new BongsuLive({
        url,
        token: token && (() => token),
        onNotification: (one) => { got.push(one.notification_id); },
        onState: (state, error) => { states.push([state, error?.reason, error?.message].filter(Boolean).join(' ')); },
      });
    }, { url: sender.url, token });
    return {
      page,
      got: (id) => until(`notification ${id}`, () => page.evaluate((id) => got.includes(id), id)),
      state: (wanted) => until(wanted, () => page.evaluate((wanted) => states.some((state) => state.includes(wanted)), wanted)),
    };
  };

  const byToken = await client(app.origin, stack.token('alice'));
  await byToken.state('live');
  await (await client(app.origin)).state('TOKEN_MISSING');
  // A browser sends it to all ports of a host.
  await context.addCookies([{ name: 'session', value: stack.token('alice'), url: sender.url, httpOnly: true, sameSite: 'Strict' }]);
  const byCookie = await client(app.origin);
  await byCookie.state('live');
  const foreign = await client(other.origin);
  await foreign.state('waiting');
  const id = await stack.send('alice', 'to other hosts', ...LIVE_THEN_PUSH);
  await Promise.all([byToken.got(id), byCookie.got(id)]);
  const { counts } = await acknowledged(id);
  assert.equal(counts.skipped, 1);
  assert.deepEqual(await foreign.page.evaluate(() => [got, states.includes('live')]), [[], false]);
});

test('the same client works in Node.js, and has what the page has', async (t) => {
  const minji = await tab(t, stack.token('minji'));
  const got = [];
  const token = () => stack.token('minji');
  const live = new BongsuLive({ url: stack.url, token, onNotification: (one) => { got.push(one.notification_id); } });
  t.after(() => live.close());
  const id = await stack.send('minji', 'for both', '--routing', 'live');
  await has(minji, id);
  await until('the same', () => got.includes(id));
  const { notifications } = await live.inbox({ page_size: 1 });
  assert.equal(notifications[0].notification_id, id);
  const { unread_count } = await live.read({ up_to_event_id: notifications[0].event_id });
  assert.equal(unread_count, 0);
});

// The last ones, since they take senders away.
for (const [signal, how] of [['SIGTERM', 'drains'], ['SIGKILL', 'is killed']]) {
  test(`when its sender ${how}, a page goes on at another one, and misses and doubles nothing`, async (t) => {
    const minji = await tab(t, stack.token('minji'));
    await connected(minji);
    const ids = [];
    for (let number = 0; number < 6; number++) {
      if (number === 3) process.kill(stack.pids.shift(), signal);
      ids.push(await stack.send('minji', `${signal} ${number}`, '--routing', 'live'));
    }
    await has(minji, ids.at(-1));
    assert.deepEqual((await minji.handed()).filter((id) => ids.includes(id)), ids, 'in order, once each');
    await connected(minji);
    const log = await minji.page.$$eval('#log li', (lines) => lines.map((line) => line.textContent));
    assert.ok(log.some((line) => line.includes('trying again')), 'it was connected to that sender');
    for (const id of ids) {
      await until('acknowledged', async () => (await stack.status(id)).live.acknowledged === 1);
    }
  });
}
