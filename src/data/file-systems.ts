// The file systems of this process, for users of `horovod/data`: patterns, schemes of their own, and the folders of Hopsworks.

import { defaultFiles } from '../context/default/default-files.ts';
import { glob as globIn } from '../files/glob.ts';
import { projectName, projectPath } from '../files/webhdfs/project.ts';

export type {
  CreateOptions,
  FileStatus,
  FileSystem,
  FileWaitOptions,
  ReadHandle,
  RemoveOptions,
  RenameOptions,
  WriteHandle,
} from '../files/file-system.ts';
export type { FileSystemFactory } from '../files/registry.ts';

/** The files that match a pattern, sorted: * ? [a-z] {a,b}, and ** for any number of folders. On every file system but http. */
export function glob(pattern: string, options: { signal?: AbortSignal | undefined } = {}): Promise<string[]> {
  return globIn(defaultFiles(), pattern, options);
}

/**
 * Makes locations of a scheme, such as s3://, work everywhere. The module's default export is a function (scheme) => FileSystem. It is
 * a module, so that other threads and processes can load it too.
 */
export function registerFileSystem(scheme: string, module: URL): void {
  defaultFiles().register(scheme, module);
}

/** Hopsworks: where the files of the project are. */
export const hdfs: {
  /** The project of this process, from HADOOP_USER_NAME=project__user. */
  readonly projectName: () => string;
  /** hdfs:///Projects/<project>/ of this project or of another one. */
  readonly projectPath: (project?: string) => string;
} = {
  projectName: () => projectName(defaultFiles().settings.hadoopUser),
  projectPath: (project) => projectPath(project ?? projectName(defaultFiles().settings.hadoopUser)),
};
