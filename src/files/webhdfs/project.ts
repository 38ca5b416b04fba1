// Projects on Hopsworks: a process runs as the HDFS user `project__user`, and the files of the project are below /Projects.

import { HorovodError } from '../../errors.ts';

/** The project of this process, from HADOOP_USER_NAME. */
export function projectName(hadoopUser: string | undefined): string {
  const project = /^(.+?)__/.exec(hadoopUser ?? '')?.[1];
  if (project !== undefined) return project;
  const found = hadoopUser === undefined ? 'it is not set' : `it is ${JSON.stringify(hadoopUser)}`;
  throw new HorovodError(
    'ERR_HVD_SETTING',
    `hdfs.projectName() takes the project from HADOOP_USER_NAME=project__user, and ${found}. Outside of Hopsworks there are no ` +
      'projects: write the path of your files, such as hdfs:///user/you/.',
  );
}

/** The folder of a project, with a slash at its end. */
export function projectPath(project: string): string {
  if (project === '' || project.includes('/')) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `hdfs.projectPath: ${JSON.stringify(project)} is not a project.`,
    );
  }
  return `hdfs:///Projects/${project}/`;
}
