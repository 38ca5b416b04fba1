// The pictures of the guide's page about the dashboard: the built page in the browser of the tests, on the prepared states of its tests.

import sharp from 'sharp';
import { inRepository } from './tools.mjs';

export async function takeDashboardPictures(browser) {
  const support = (name) => import(inRepository('.dist-test/test/support', name));
  const { dashboardStart, eventsOf, killed, logLines } = await support('dashboard-states.js');
  const { FakeDashboard } = await support('fake-dashboard.js');

  const few = { ranks: 8, samples: 140, slowRank: 3, slowFrom: 85 };
  const many = { ranks: 64, samples: 160, slowRank: 37, slowFrom: 110 };
  const control = { hasControl: true, canRecord: true };
  const training = dashboardStart(few, {
    ...control,
    logs: logLines(few, 2247).slice(-400),
    news: eventsOf(few),
  });
  const lost = killed(dashboardStart(many, { ...control, logs: logLines(many, 20_479).slice(-400) }), 12);

  const pictures = [
    {
      name: 'dashboard-light',
      start: training,
      scheme: 'light',
      size: { width: 1280, height: 800 },
      isWhole: true,
    },
    { name: 'dashboard-dark', start: lost, scheme: 'dark', size: { width: 1280, height: 1240 } },
    { name: 'dashboard-phone', start: training, scheme: 'light', size: { width: 400, height: 1000 } },
  ];

  for (const { name, start, scheme, size, isWhole = false } of pictures) {
    const server = await FakeDashboard.open(start);
    const { page } = await browser.open('about:blank', size);
    await page.emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' });
    // The time of the prepared states: they are a few minutes old.
    await page.clock.setFixedTime(start.samples.at(-1).at);
    await page.goto(server.url);
    await page.waitForSelector('tr.rank');
    await page.waitForSelector('#charts canvas');
    // Two frames: one for the sizes of the canvases, one for what is on them.
    await page.evaluate(
      () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))),
    );
    const taken = await page.screenshot({ fullPage: isWhole });
    const { size: bytes } = await sharp(taken)
      .png({ palette: true, quality: 90, effort: 10 })
      .toFile(inRepository('docs/images', `${name}.png`));
    console.log(`docs/images/${name}.png  ${Math.round(bytes / 1024)} KiB`);
    await page.close();
    await server[Symbol.asyncDispose]();
  }
}
