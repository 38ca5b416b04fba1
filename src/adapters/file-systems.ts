// The file systems of this process, for model and event files. Works before init() too.

export { defaultFiles as fileSystems } from '../context/default/default-files.ts';
