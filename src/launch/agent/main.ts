// The program of the agent, which horovodrun starts on another host through ssh to run the ranks there, or a task of a cluster
// manager with the word `dial` (dialed-agent.ts). Any version of Node must be able to run this file, so it checks the version before it loads anything else.

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
if (major < 20 || (major === 20 && minor < 19)) {
  process.stdout.write(`horovod-agent problem node-too-old ${process.versions.node} ${process.execPath}\n`);
  process.exitCode = 3;
} else {
  const isDialing = process.argv[2] === 'dial';
  const run = isDialing
    ? (await import('./dialed-agent.ts')).runDialedAgent
    : (await import('./agent.ts')).runAgent;
  process.exit(await run(process));
}

export {};
