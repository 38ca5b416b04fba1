// The program of the agent, which horovodrun starts on another host through ssh to run the ranks there. Any version of Node
// must be able to run this file, so it checks the version before it loads anything else.

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
if (major < 20 || (major === 20 && minor < 19)) {
  process.stdout.write(`horovod-agent problem node-too-old ${process.versions.node} ${process.execPath}\n`);
  process.exitCode = 3;
} else {
  const { runAgent } = await import('./agent.ts');
  process.exit(await runAgent(process));
}

export {};
